"""What the fuzzer is told about this API beyond its document."""

from typing import Any

import schemathesis
from hypothesis import strategies as st
from schemathesis.core.parameters import ParameterLocation
from schemathesis.generation.meta import TestPhase

schemathesis.openapi.format("cursor", st.just(""))  # any other is only valid if a list has given it out


@schemathesis.hook
def before_call(_context: schemathesis.HookContext, case: "schemathesis.Case[Any]", **_options: Any) -> None:
    """Cases that are not about headers need no key: one for all would make all but the first a 409."""
    about = case.meta.phase if case.meta else None
    if about and about.name == TestPhase.COVERAGE and about.data.parameter_location != ParameterLocation.HEADER and case.headers:
        case.headers.pop("Idempotency-Key", None)
