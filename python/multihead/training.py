# SPDX-License-Identifier: MIT
"""Training by hand: tapes, arrays with gradients, and AdamW."""
from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Protocol

from . import _multihead

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vector = NDArray[np.float32]


class Tape:
    """What a forward pass saves for its backward pass.

    A tape holds one forward pass, and is reused: its memory grows to what is needed once.

    >>> import multihead as mh, numpy as np
    >>> layer, tape = mh.TransformerEncoderLayer(8, 2, 16, dropout=0.0), mh.Tape()
    >>> x = np.ones((3, 1, 8), np.float32)
    >>> y = layer(x, tape=tape)
    >>> dx = tape.backward(np.ones_like(y))         # and layer.gradients are added to
    >>> dx.shape
    (3, 1, 8)
    """

    def __init__(self) -> None:
        self._core = _multihead.Tape()
        self._run_backward: Callable[[Any], Any] | None = None

    @property
    def nbytes(self) -> int:
        """The memory of the saved activations."""
        return self._core.nbytes()

    def backward(self, doutput: Any) -> Any:
        """The gradients of the inputs, from the gradient of the output.

        Those of the parameters are added to the module's `gradients`. Inputs and masks must be
        as they were in the forward pass. See each module's `forward` for what is returned.
        """
        if self._run_backward is None:
            raise ValueError("tape: found nothing recorded, expected a forward pass with tape=")
        return self._run_backward(doutput)


class Trainable(Protocol):
    """A module, a `Parameter`, or anything else with these."""

    @property
    def values(self) -> Vector: ...

    @property
    def gradients(self) -> Vector: ...


class Parameter:
    """An array of one's own, such as an embedding, that AdamW updates together with modules.

    >>> import multihead as mh, numpy as np
    >>> table = mh.Parameter(np.zeros((10, 4)))
    >>> table.data.shape, table.grad.shape
    ((10, 4), (10, 4))
    """

    def __init__(self, data: Any) -> None:
        import numpy as np

        self.data: Vector = np.array(data, np.float32, order="C")
        self.grad: Vector = np.zeros_like(self.data)

    @property
    def values(self) -> Vector:
        """The elements as a vector, without a copy."""
        return self.data.reshape(-1)

    @property
    def gradients(self) -> Vector:
        """The gradient's elements as a vector, without a copy."""
        return self.grad.reshape(-1)

    def zero_grad(self) -> None:
        """Sets the gradient to zero."""
        self.grad[...] = 0


class AdamW:
    """torch.optim.AdamW for modules and parameters.

    `max_norm` clips the gradients' norm before each step, as clip_grad_norm_ does. The options
    are attributes, which may be set between steps: a schedule is `optimiser.lr = ...`.

    >>> import multihead as mh, numpy as np
    >>> p = mh.Parameter([1.0, -1.0])
    >>> optimiser = mh.AdamW([p], lr=0.1, weight_decay=0.0)
    >>> p.grad[:] = p.data                          # of the loss (data ** 2).sum() / 2
    >>> norm = optimiser.step()
    >>> p.data, round(norm, 3)
    (array([ 0.9, -0.9], dtype=float32), 1.414)
    """

    def __init__(
        self,
        params: Trainable | Iterable[Trainable],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        *,
        max_norm: float | None = None,
    ) -> None:
        import numpy as np

        found = list(params) if isinstance(params, Iterable) else [params]
        for p in found:
            if not (hasattr(p, "values") and hasattr(p, "gradients")):
                raise TypeError(f"params: found {p!r}, expected modules and Parameters")
        self.params: list[Trainable] = found
        self.lr, self.betas, self.eps, self.weight_decay = lr, betas, eps, weight_decay
        self.max_norm = max_norm
        self.steps = 0
        self._moments = [(np.zeros_like(p.values), np.zeros_like(p.values)) for p in found]

    def zero_grad(self) -> None:
        """Sets all gradients to zero."""
        for p in self.params:
            p.gradients[...] = 0

    def step(self) -> float:
        """Updates all parameters; returns the gradients' norm, before clipping."""
        gradients = [p.gradients for p in self.params]
        norm = _multihead.gradient_norm(gradients)
        scale = 1.0 if self.max_norm is None else _multihead.clip_factor(norm, self.max_norm)
        self.steps += 1
        for p, gradient, (m, v) in zip(self.params, gradients, self._moments):
            _multihead.adamw_step(
                self.steps, gradient, p.values, m, v,
                learning_rate=self.lr, beta1=self.betas[0], beta2=self.betas[1],
                epsilon=self.eps, weight_decay=self.weight_decay, gradient_scale=scale,
            )
        return norm

    def state_dict(self) -> dict[str, Any]:
        """The moments and the number of steps, for `load_state_dict` or `save_file`."""
        import numpy as np

        state: dict[str, Any] = {"steps": np.array(self.steps)}
        for i, (m, v) in enumerate(self._moments):
            state[f"{i}.exp_avg"], state[f"{i}.exp_avg_sq"] = m, v
        return state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continues from such a state, which is copied."""
        expected = self.state_dict()
        for name, value in expected.items():
            if name not in state:
                raise ValueError(f"{name}: found nothing, expected {value.shape}")
            if tuple(state[name].shape) != value.shape:
                raise ValueError(
                    f"{name}: found {tuple(state[name].shape)}, expected {value.shape}"
                )
        self.steps = int(state["steps"])
        for i, (m, v) in enumerate(self._moments):
            m[...], v[...] = state[f"{i}.exp_avg"], state[f"{i}.exp_avg_sq"]


def cross_entropy(
    logits: Any,
    targets: Any,
    weight: Any = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> tuple[float, Any]:
    """torch's F.cross_entropy and its gradient: (loss, dlogits).

    logits (N, V), targets (N) of int32 or int64; reduction is "mean" or "sum".

    >>> import multihead as mh, numpy as np
    >>> loss, dlogits = mh.cross_entropy(np.zeros((2, 4), np.float32), np.array([0, 3]))
    >>> round(loss, 4), dlogits[0].tolist()
    (1.3863, [-0.375, 0.125, 0.125, 0.125])
    """
    return _multihead.cross_entropy(
        logits, targets, weight=weight, ignore_index=ignore_index, reduction=reduction,
        label_smoothing=label_smoothing)
