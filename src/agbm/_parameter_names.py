"""Names of parameters: those of methods, and those of other libraries, which errors translate."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self, cast

from ._core.methods import METHODS, Method, RemembersNames, method_of, owners_of
from ._migration.foreign import of_attribute, of_estimator, of_loss


class KnowsNames(RemembersNames):
    """An estimator that accepts `method__fade=0.3`, and whose errors say where to put `fade=0.3` or `num_leaves=31`."""

    method: str | Method
    loss: Any
    verbose: Any

    def __new__(cls, *args: Any, **parameters: Any) -> Self:
        for name, value in parameters.items():
            owners = [kind.__name__ for kind in owners_of(name)]
            if owners:
                raise TypeError(
                    f"{name} is a parameter of the method, not of {cls.__name__}; pass "
                    + " or ".join(f"method={owner}({name}={value!r})" for owner in owners)
                    + ", from agbm.methods."
                )
        instead = cls._instead_of(parameters)
        if instead:
            raise TypeError(instead)
        return cast(Self, super().__new__(cls))

    @classmethod
    def _instead_of(cls, parameters: Mapping[str, Any]) -> str:
        """An error message about unknown parameters that another library has; empty if there are none."""
        known = cls._get_param_names()
        hints = {name: of_estimator(name, value, known) for name, value in parameters.items() if name not in known}
        found = [f"{cls.__name__} has no parameter {name!r}: {hint}" for name, hint in hints.items() if hint]
        return " ".join(found)

    def set_params(self, **parameters: Any) -> Self:
        """Set parameters as in scikit-learn. method__x replaces a method name by a method object with that setting."""
        named = parameters.get("method", self.method)
        if isinstance(named, str) and named in METHODS and any(name.startswith("method__") for name in parameters):
            parameters = {**parameters, "method": method_of(named)}
        instead = self._instead_of({name: value for name, value in parameters.items() if "__" not in name})
        if instead:
            raise ValueError(instead)
        return cast(Self, super().set_params(**parameters))

    def _validate_params(self) -> None:
        """Check parameters as scikit-learn does; for values that other libraries have, errors name ours."""
        found = of_loss(self.loss) if isinstance(self.loss, str) else None
        if found is not None:
            estimator, loss = found
            here = f"loss={loss!r}" if type(self).__name__.endswith(estimator) else f"{estimator}(loss={loss!r})"
            raise ValueError(f"{type(self).__name__} has no loss {self.loss!r}; use {here}.")
        if isinstance(self.verbose, int) and self.verbose < 0:
            raise ValueError(
                f"The 'verbose' parameter of {type(self).__name__} must be 0, which shows nothing, or 1. Got "
                f"{self.verbose!r} instead."
            )
        super()._validate_params()

    if not TYPE_CHECKING:  # type checkers would accept any name

        def __getattr__(self, name: str) -> Any:
            instead = of_attribute(name)
            if instead is None:
                return super().__getattribute__(name)  # raises the error once more
            message = f"{type(self).__name__} has no attribute {name!r}; {instead}."
            raise AttributeError(message, name=name, obj=self)
