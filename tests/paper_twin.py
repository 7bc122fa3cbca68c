"""The paper's pseudo-code, written down a second time in plain NumPy: the oracle of agbm.boosting.

`fit(r)` is the best weak learner's vector of predictions for a residual r; `gradient(f)` the derivative of the loss;
`total(f)` the loss L(f). Every function returns the list of the named vectors, one entry an iteration.
"""

import numpy as np


def gbm(f0, gradient, fit, eta, iterations):
    f = f0.copy()
    trace = []
    for _ in range(iterations):
        r = -gradient(f)
        b = fit(r)
        f = f + eta * b
        trace.append({"f": f, "r": r})
    return trace


def vagbm(f0, gradient, fit, eta, gamma, iterations):
    f, h = f0.copy(), f0.copy()
    trace = []
    for m in range(iterations):
        theta = 2.0 / (m + 2.0)
        g = (1.0 - theta) * f + theta * h
        r = -gradient(g)
        b = fit(r)
        f = g + eta * b
        h = h + gamma * eta / theta * b
        trace.append({"f": f, "g": g, "h": h, "r": r})
    return trace


def agbm(f0, gradient, fit, eta, gamma, iterations, rho=1.0):
    """Algorithm 2 with the constant gamma of the paper; rho scales the correction."""
    f, h = f0.copy(), f0.copy()
    c_before = b2_before = np.zeros_like(f0)
    trace = []
    for m in range(iterations):
        theta = 2.0 / (m + 2.0)
        g = (1.0 - theta) * f + theta * h
        r = -gradient(g)
        b1 = fit(r)
        f = g + eta * b1
        c = r if m == 0 else r + rho * (m + 1.0) / (m + 2.0) * (c_before - b2_before)
        b2 = fit(c)
        h = h + gamma * eta / theta * b2
        trace.append({"f": f, "g": g, "h": h, "r": r, "c": c})
        c_before, b2_before = c, b2
    return trace


def agbm_theory(f0, gradient, fit, eta, iterations):
    """Algorithm 2 with gamma_m from the smallest cosine of the fits before iteration m (at first, of iteration 0)."""
    f, h = f0.copy(), f0.copy()
    smallest = 1.0
    trace = []
    alpha_before, error = None, None

    def cos(a, b):
        return a @ b / np.linalg.norm(a) / np.linalg.norm(b)

    for m in range(iterations):
        theta = 2.0 / (m + 2.0)
        g = (1.0 - theta) * f + theta * h
        r = -gradient(g)
        b1 = fit(r)
        if m == 0:
            smallest = min(smallest, cos(r, b1))
        gamma = smallest**4 / (4.0 + smallest**2)
        if gamma < 1e-6:  # no momentum is admissible any more
            f = g + eta * b1
            trace.append({"f": f, "g": g, "h": h, "r": r, "c": r})
            continue
        alpha = eta * gamma / theta
        c = r if m == 0 else r + alpha_before / alpha * error
        b2 = fit(c)
        f = g + eta * b1
        h = h + alpha * b2
        error, alpha_before = c - b2, alpha
        smallest = min(smallest, cos(r, b1), cos(c, b2))
        trace.append({"f": f, "g": g, "h": h, "r": r, "c": c})
    return trace


def agbmr(f0, gradient, fit, eta, gamma, iterations, total, mu=None):
    """Restarts by option 1 (mu given) or option 2. Also returns the iterations at which a run began."""
    f = f0.copy()
    trace, begins = [], []
    while len(trace) < iterations:
        begins.append(len(trace))
        left = iterations - len(trace)
        if mu is not None:
            run = agbm(f, gradient, fit, eta, gamma, min(left, int(np.ceil(np.sqrt(2.0 / (eta * gamma * mu))))))
        else:
            run = agbm(f, gradient, fit, eta, gamma, left)
            before = total(f)
            for m, state in enumerate(run):
                now = total(state["f"])
                if now > before:
                    run = run[: m + 1]
                    break
                before = now
        trace += run
        f = run[-1]["f"]
    return trace, begins
