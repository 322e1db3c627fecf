"""`pytest --fast`, which `make test-fast` runs: SQLite only, without the browser, the proofs and the files that take longest."""

from pathlib import Path

import pytest

LONG_FOLDERS = {"browser", "journeys", "torture"}
LONG_FILES = {
    "test_checklist.py",
    "test_cli_bad_days.py",
    "test_cli_chat.py",
    "test_cli_chat_terminal.py",
    "test_cli_demo.py",
    "test_cli_doctor.py",
    "test_cli_eval.py",
    "test_cli_engine_jobs.py",
    "test_cli_engine_worker.py",
    "test_cli_goals.py",
    "test_cli_hostile_text.py",
    "test_cli_streams.py",
    "test_cli_tools.py",
    "test_cli_transfer.py",
    "test_commands.py",
    "test_envelope.py",
    "test_examples.py",
    "test_forged_schedules.py",
    "test_forgery_stories.py",
    "test_frameworks.py",
    "test_garbled_answers.py",
    "test_garbled_providers.py",
    "test_goal_apart.py",
    "test_goal_check_ins.py",
    "test_goal_checkpoints.py",
    "test_goal_evaluation.py",
    "test_goal_faults.py",
    "test_goal_frames.py",
    "test_goal_inline.py",
    "test_goal_money.py",
    "test_goal_notices.py",
    "test_goal_pauses.py",
    "test_goal_plan_forms.py",
    "test_goal_plans.py",
    "test_goal_replans.py",
    "test_http_engine_schedules.py",
    "test_http_front_ends.py",
    "test_http_live_events.py",
    "test_http_openapi.py",
    "test_http_outage.py",
    "test_http_serve.py",
    "test_http_turns_stopping.py",
    "test_jobs_claims.py",
    "test_jobs_retries.py",
    "test_jobs_tools.py",
    "test_mcp.py",
    "test_mcp_changes.py",
    "test_mcp_client.py",
    "test_mcp_clients_gone.py",
    "test_mcp_foreign_clients.py",
    "test_mcp_http.py",
    "test_mcp_real_servers.py",
    "test_mcp_scopes.py",
    "test_mcp_start.py",
    "test_mcp_unused.py",
    "test_models.py",
    "test_packaging.py",
    "test_provider_secrets.py",
    "test_readme.py",
    "test_rehearsal.py",
    "test_rehearsal_goals.py",
    "test_rehearsal_wording.py",
    "test_retry_after.py",
    "test_secrets.py",
    "test_sub_agents_cancel.py",
    "test_sub_agents_caps.py",
    "test_sub_agents_cut_off.py",
    "test_sub_agents_delegate.py",
    "test_sub_agents_failure.py",
    "test_sub_agents_money.py",
    "test_sub_agents_sent.py",
    "test_sub_agents_spawn.py",
    "test_sub_agents_writs.py",
    "test_supported_pythons.py",
    "test_task_list_tools.py",
    "test_tracing.py",
    "test_turn_cancel.py",
    "test_turn_iterations.py",
    "test_turn_plan_order.py",
    "test_turn_prompts.py",
    "test_turn_resume.py",
    "test_turn_spending.py",
    "test_turn_tool_retries.py",
    "test_turn_window.py",
    "test_web_fetch.py",
}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--fast", action="store_true", help="SQLite only, without the browser, the proofs and the longest files")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not even import long files, unless they are named on the command line."""
    is_named = any(collection_path.name in argument for argument in config.args)
    is_long = collection_path.name in LONG_FOLDERS | LONG_FILES
    return True if config.getoption("fast") and is_long and not is_named else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("fast"):
        config.hook.pytest_deselected(items=[item for item in items if needs_more(item)])
        items[:] = [item for item in items if not needs_more(item)]


def needs_more(item: pytest.Item) -> bool:
    """Whether the test is a proof or needs Postgres."""
    fixtures: list[str] = getattr(item, "fixturenames", [])
    return "postgres" in item.name or "postgres_server" in fixtures or item.get_closest_marker("proof") is not None
