"""Configuration of the fuzzer beyond the OpenAPI document."""

from datetime import date
from typing import Any

import schemathesis
from hypothesis import strategies as st
from schemathesis.core.parameters import ParameterLocation
from schemathesis.generation.meta import TestPhase

schemathesis.openapi.format("iso-time", st.dates(min_value=date(1970, 1, 1)).map(date.isoformat))
schemathesis.openapi.format("cursor", st.just(""))  # any other cursor is only valid if a list returned it


@schemathesis.hook
def before_call(_context: schemathesis.HookContext, case: "schemathesis.Case[Any]", **_options: Any) -> None:
    """Remove the idempotency key from cases that do not test headers: a shared key would turn all but the first into a 409."""
    about = case.meta.phase if case.meta else None
    if about and about.name == TestPhase.COVERAGE and about.data.parameter_location != ParameterLocation.HEADER and case.headers:
        case.headers.pop("Idempotency-Key", None)
