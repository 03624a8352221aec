"""Files of the prototype that were changed at random places."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from continuations import Continuation, Deny, Finished, resume
from continuations.core import jsontext
from continuations.errors import FormatError
from continuations.interop import snaplogic
from tests import effect_log
from tests.interop import snaplogic_files as files
from tests.sampling import examples


def places(container: Any) -> Iterator[tuple[Any, Any]]:
    """Return each container of a JSON value with each key in it."""
    fields = jsontext.as_object(container)
    keys = range(len(container)) if fields is None else fields
    for key in keys:
        item = container[key]
        yield container, key
        if jsontext.as_object(item) or jsontext.as_array(item):
            yield from places(item)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.text(max_size=3), inner, max_size=2)
    ),
    max_leaves=4,
)


@settings(max_examples=examples(400), derandomize=True)
@given(st.data())
def test_changed_file_is_read_or_refused(data: st.DataObject) -> None:
    """Only `FormatError` leaves; what is read can be stored, denied and finished."""
    file = data.draw(st.sampled_from(files.FORMS))()
    for _ in range(data.draw(st.integers(1, 3))):
        container, key = data.draw(st.sampled_from(list(places(file))))
        other, other_key = data.draw(st.sampled_from(list(places(file))))
        moved = json.loads(json.dumps(other[other_key]))
        match data.draw(st.sampled_from(["delete", "replace", "move"])):
            case "delete":
                del container[key]
            case "replace":
                container[key] = data.draw(JSON)
            case _:
                container[key] = moved
        if not list(places(file)):
            break
    agent = files.make_desk()
    try:
        paused = snaplogic.read(json.dumps(file).encode(), agent)
    except FormatError:
        return
    state = Continuation.from_bytes(paused.continuation.to_bytes())
    waits = [wait.id for wait in state.waits]
    end = resume(state, agent, answers=dict.fromkeys(waits, Deny()))
    assert isinstance(end, Finished)
    effects = effect_log.read_lines(Path(os.environ[effect_log.EFFECTS_VARIABLE]))
    assert [] == effects
