"""Messages on why a model or data set of the Hugging Face Hub cannot be downloaded."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from sentbed import SentbedError


@contextmanager
def hub_errors(
    error_of: Callable[[str], SentbedError],
    kind: str,
    repository: str,
    revision: str | None = None,
) -> Iterator[None]:
    """Turn exceptions into `error_of(message)`, which names the repository and has the words of the library.

    `kind` is `model` or `dataset`. `KeyboardInterrupt` and `SystemExit` pass unchanged.
    """
    try:
        yield
    except Exception as error:
        name = f"`{repository}`"
        if revision is not None:
            name += f" at revision `{revision}`"

        reason = str(error) or type(error).__name__
        # `datasets` wraps the error of a parser, which has the reason.
        if error.__cause__ is not None:
            reason += f" ({error.__cause__})"
        reason = " ".join(reason.split())
        raise error_of(f"the hub gives no {kind} {name}: {reason}") from error
