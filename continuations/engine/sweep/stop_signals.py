"""Take SIGTERM and SIGINT over for a while, and give the handlers of before back."""

from __future__ import annotations

import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from types import FrameType

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)


@contextmanager
def stop_signals_handled(
    handle: Callable[[signal.Signals], object],
) -> Generator[None]:
    """Call `handle` once, on the first SIGTERM or SIGINT in this block.

    `handle` runs in the main thread, between two bytecodes. Before it is called, and at
    the end of the block, the earlier handlers are restored: a second signal has the
    effect that it has without this block. Outside the main thread, Python allows no
    handlers, so none are set. An ignored signal stays ignored.
    """
    # Not `loop.add_signal_handler`: its counterpart removes the host's handler.
    earlier: dict[signal.Signals, Any] = {}

    def restore_handlers() -> None:
        while earlier:
            number, handler = earlier.popitem()
            # If the host has set another handler since, that one stays.
            if signal.getsignal(number) is receive:
                signal.signal(number, handler)

    def receive(number: int, _frame: FrameType | None) -> None:
        restore_handlers()
        handle(signal.Signals(number))

    if threading.current_thread() is threading.main_thread():
        for number in STOP_SIGNALS:
            handler = signal.getsignal(number)
            # None is a handler of C code, which Python cannot restore.
            if handler not in {None, signal.SIG_IGN}:
                earlier[number] = handler
                signal.signal(number, receive)
    try:
        yield
    finally:
        restore_handlers()
