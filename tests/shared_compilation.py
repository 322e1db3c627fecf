"""Divides the compilation of test modules among the workers of a run.

pytest compiles test modules itself, so that a failed assertion shows its values. In a fresh clone that takes twice as long as the
collection, and workers that all begin with the first module would each compile every module.
"""

from importlib import import_module

import pytest


@pytest.hookimpl(trylast=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    """In a worker of a whole run, import a share of the test modules. The other workers then find these compiled."""
    config = session.config
    workerinput = getattr(config, "workerinput", None)
    if workerinput is None or config.args_source is not pytest.Config.ArgsSource.TESTPATHS or config.getoption("fast"):
        return
    number = int(workerinput["workerid"].removeprefix("gw"))
    for module in list_test_modules(config)[number :: workerinput["workercount"]]:
        import_module(module)


def list_test_modules(config: pytest.Config) -> list[str]:
    folders = [config.rootpath / folder for folder in config.getini("testpaths")]
    files = sorted(file for folder in folders for file in folder.rglob("test_*.py"))
    return [".".join(file.relative_to(config.rootpath).with_suffix("").parts) for file in files]
