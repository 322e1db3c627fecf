"""Builds what agents need: the models and the engine. Imported when agents start, because the model layer loads slowly."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from headway.actions.engine import schedules
from headway.agents.loop import job_handlers
from headway.agents.loop.context import Runtime
from headway.agents.models.client import Models
from headway.agents.models.prices import Prices, load_prices
from headway.agents.models.rehearsal.model import build_rehearsal_model
from headway.agents.tracing import Tracer
from headway.autonomy import pursuit as goal_job_handlers
from headway.autonomy import recovery
from headway.engine.engine import Engine
from headway.engine.runner import EngineLimits
from headway.ledger.text import Redactor
from headway.ledger.tiers import REHEARSAL_MODEL
from headway.settings import Settings
from headway.storage.database import Database
from headway.storage.server_session import ServerSession
from headway.webhooks import Deliverer, Sender


def build_models(settings: Settings, models_by_name: Mapping[str, Any], tracer: Tracer, redact: Redactor) -> Models:
    """Build the models that the settings name. Models in `models_by_name` are used as they are."""
    return Models(
        {"strong": settings.model, "mid": settings.model_mid, "cheap": settings.model_cheap},
        settings.model_timeout_s,
        Prices(load_prices(Path(settings.home, "prices.toml"))),
        {REHEARSAL_MODEL: build_rehearsal_model(settings.rehearsal_pace_s), **models_by_name},
        tracer,
        redact,
        settings.model_parameters,
    )


def build_engine(settings: Settings, database: Database, runtime: Runtime, session: ServerSession, sender: Sender) -> Engine:
    """Build the engine that runs turns, sub-agents, goals, scheduled tools, notices and webhooks."""
    handlers = {
        **job_handlers.build_handlers(runtime),
        **goal_job_handlers.build_handlers(runtime, settings.goals, settings.notify, settings.url),
        **Deliverer(database, sender, runtime.owner, settings.limits).build_handlers(),
    }
    limits = EngineLimits(
        per_family=settings.limits.per_parent, stagger_s=settings.restart_stagger_s, per_tenant=settings.quotas.jobs
    )
    tick = partial(schedules.tick, limits=settings.limits)
    on_recovery = partial(recovery.recover_goals, stagger_ms=int(settings.restart_stagger_s * 1000))
    return Engine(database, runtime.owner, handlers, limits, tick, on_recovery, session)
