"""A second implementation of the algorithms in plain NumPy, as a reference for agbm._core.boosting.

`fit(r)` returns the predictions of the best weak learner for a residual r; `gradient(f)` is the derivative of the loss.
Every function returns a list with the named vectors of each iteration.
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


def fading(f0, gradient, fit, rate, entry, fade, growth, iterations, look_ahead=0.0):
    """Residuals are taken at the look-ahead point. Learners are kept and summed with weights in closed form."""
    eta = max(entry, rate)
    learners, alphas, trace = [], [], []

    def total(share):
        """The sum of all learners, with this share of the excess weight that they have at the look-ahead point."""
        m = len(learners)
        weights = [alpha + share * (eta - alpha) * (1.0 - fade) ** (m - 1 - j) for j, alpha in enumerate(alphas)]
        return f0 + sum(a * b for a, b in zip(weights, learners, strict=True))

    for m in range(iterations):
        g = total(1.0)
        r = -gradient(g)
        learners.append(fit(r))
        alphas.append(min(rate * (1.0 + growth * m), eta))
        trace.append({"f": total(1.0 / (1.0 + look_ahead)), "g": g, "h": total(0.0), "r": r})
    return trace


def vagbm_fading(f0, gradient, fit, rate, entry, fade, growth, iterations):
    f, h = f0.copy(), f0.copy()
    eta = max(entry, rate)
    trace = []
    for m in range(iterations):
        alpha = min(rate * (1.0 + growth * m), eta)
        g = (1.0 - fade) * f + fade * h
        r = -gradient(g)
        b = fit(r)
        f = g + eta * b
        h = h + alpha * b
        trace.append({"f": f, "g": g, "h": h, "r": r})
    return trace


def agbm_fading(f0, gradient, fit, rate, entry, fade, growth, iterations, rho):
    """The corrected residual multiplies earlier errors by the ratio of the weights in h, as the lemma requires."""
    f, h = f0.copy(), f0.copy()
    eta = max(entry, rate)
    trace = []
    alpha_before, error = 0.0, 0.0
    for m in range(iterations):
        alpha = min(rate * (1.0 + growth * m), eta)
        g = (1.0 - fade) * f + fade * h
        r = -gradient(g)
        c = r + rho * alpha_before / alpha * error
        b1, b2 = fit(r), fit(c)
        f = g + eta * b1
        h = h + alpha * b2
        alpha_before, error = alpha, c - b2
        trace.append({"f": f, "g": g, "h": h, "r": r, "c": c})
    return trace


def agbm_theory(f0, gradient, fit, eta, iterations):
    """Algorithm 2 with gamma_m from the smallest cosine of the fits before iteration m (m = 0: of the first fit)."""
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


def agbmr(f0, gradient, fit, eta, gamma, iterations, turns=None, mu=None):
    """AGBM with restarts: by option 1 if mu is given, otherwise when turns(f before the step, state after it) is true.

    Also returns the iterations at which a run starts.
    """
    f = f0.copy()
    trace, begins = [], []
    while len(trace) < iterations:
        begins.append(len(trace))
        left = iterations - len(trace)
        if mu is not None:
            run = agbm(f, gradient, fit, eta, gamma, min(left, int(np.ceil(np.sqrt(2.0 / (eta * gamma * mu))))))
        else:
            run = agbm(f, gradient, fit, eta, gamma, left)
            before = f
            for m, state in enumerate(run):
                if turns(before, state):
                    run = run[: m + 1]
                    break
                before = state["f"]
        trace += run
        f = run[-1]["f"]
    return trace, begins


def dart(f0, gradient, fit, eta, iterations, dropped):
    """GBM with dropout; `dropped` maps iterations to the learners they drop. Also returns the weights of the learners.

    Learners and their weights are kept and summed again whenever a function is needed.
    """
    learners, weights, trace = [], [], []

    def total(left_out=()):
        return f0 + sum(w * b for j, (w, b) in enumerate(zip(weights, learners, strict=True)) if j not in left_out)

    for m in range(iterations):
        out = dropped.get(m, ())
        learners.append(fit(-gradient(total(out))))
        for j in out:
            weights[j] *= len(out) / (len(out) + 1.0)
        weights.append(eta / (len(out) + 1.0))
        trace.append(total())
    return trace, weights


def agbm_with_dropout(f0, gradient, fit, eta, gamma, iterations, rho, dropped):
    """Algorithm 2 with dropout. Learners have weights a in f and d in h, and are summed again for f, g and h."""
    learners, owner, trace = [], [], []
    a, d = np.zeros(0), np.zeros(0)

    def total(weights, left_out=()):
        return f0 + sum(w * b for w, b, m in zip(weights, learners, owner, strict=True) if m not in left_out)

    error = np.zeros_like(f0)
    for m in range(iterations):
        theta = 2.0 / (m + 2.0)
        out = dropped.get(m, ())
        k = len(out)
        shrunk = np.array([k / (k + 1.0) if j in out else 1.0 for j in owner])
        a, d = a * shrunk, d * shrunk
        in_g = (1.0 - theta) * a + theta * d
        r = -gradient(total(in_g, out))
        g = total(in_g)
        b1 = fit(r)
        c = r if m == 0 else r + rho * (m + 1.0) / (m + 2.0) * error
        b2 = b1 if m == 0 else fit(c)
        alpha = gamma * eta / theta / (k + 1.0)
        if m == 0:
            learners, owner, a, d = [b1], [0], np.array([eta]), np.array([alpha])
        else:
            learners += [b1, b2]
            owner += [m, m]
            a, d = np.append(in_g, [eta / (k + 1.0), 0.0]), np.append(d, [0.0, alpha])
        error = c - b2
        trace.append({"f": total(a), "g": g, "h": total(d), "r": r, "c": c})
    return trace, a, d


def fading_with_dropout(f0, gradient, fit, rate, entry, fade, growth, look_ahead, iterations, dropped):
    """Fading with dropout. Learners have weights a in f and d in h, and are summed again for f and h."""
    learners, trace = [], []
    a, d = np.zeros(0), np.zeros(0)
    eta = max(entry, rate)

    def total(weights, left_out=()):
        return f0 + sum(w * b for j, (w, b) in enumerate(zip(weights, learners, strict=True)) if j not in left_out)

    for m in range(iterations):
        out = dropped.get(m, ())
        k = len(out)
        shrunk = np.array([k / (k + 1.0) if j in out else 1.0 for j in range(m)])
        a, d = a * shrunk, d * shrunk
        r = -gradient(total(a + look_ahead * (a - d), out))
        learners.append(fit(r))
        alpha = min(rate * (1.0 + growth * m), eta)
        entry_of_f = (eta + look_ahead * alpha) / (1.0 + look_ahead)
        a = np.append((1.0 - fade) * a + fade * d, entry_of_f / (k + 1.0))
        d = np.append(d, alpha / (k + 1.0))
        trace.append({"f": total(a), "h": total(d), "r": r})
    return trace, a, d
