"""`python -m bench.effect`: run systems over tasks with one model, and print the tables."""

import argparse
import asyncio
import os
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from bench.effect.picture import picture
from bench.effect.proxy import ARMS, Proxy, Sampling
from bench.effect.report import SECTION_START, list_figures, merge_sections, write_report
from bench.effect.runner import Job, Options, find_interpreters, read_results, run_jobs
from bench.effect.simulated import Rates
from bench.effect.systems import SYSTEMS
from bench.effect.task_list import SET_OF_TASK, TASKS
from bench.effect.tasks import TASK_SETS
from bench.harness import progress

HERE = Path(__file__).parent
SWEEP = (1.0, 0.5, 0.2, 0.0)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.effect", description=__doc__)
    parser.add_argument("--url", action="append", default=[], help="an OpenAI-compatible endpoint; several share the runs")
    parser.add_argument("--model", default="effect", help="the model's name at the endpoint")
    parser.add_argument("--key", default=os.environ.get("OPENAI_API_KEY", ""), help="its API key (default: OPENAI_API_KEY)")
    parser.add_argument("--simulated", action="store_true", help="a model with stated faults instead")
    parser.add_argument(
        "--sweep", type=float, nargs="*", metavar="SHARE", help=f"with --simulated: with these shares of its faults {SWEEP}"
    )
    for name, rate in Rates()._asdict().items():
        parser.add_argument(f"--{name}", type=float, default=rate, metavar="RATE", help=f"with --simulated (default: {rate:g})")
    parser.add_argument("--systems", nargs="+", choices=SYSTEMS, default=list(SYSTEMS), metavar="SYSTEM", help=", ".join(SYSTEMS))
    parser.add_argument("--tasks", nargs="+", choices=TASKS, metavar="TASK")
    parser.add_argument("--kinds", nargs="+", choices=sorted({task.kind for task in TASKS.values()}))
    parser.add_argument("--set", choices=[*TASK_SETS, "all"], default="judge")
    parser.add_argument("--arms", nargs="+", choices=ARMS, default=["repair"])
    parser.add_argument("--repetitions", type=int, default=1)
    parser.add_argument("--first", type=int, default=1, help="the number of the first repetition; it decides about the seeds")
    parser.add_argument("--temperature", type=float, default=0.7)
    parser.add_argument("--answer-tokens", type=int, default=1024)
    parser.add_argument("--jobs", type=int, default=4, help="how many runs at once")
    parser.add_argument("--limit", type=float, default=240, help="seconds for one run")
    parser.add_argument("--until", type=float, default=0, help="end after this many seconds; the next start continues")
    parser.add_argument("--out", type=Path, help="folder of the results; runs that it has are not repeated")
    parser.add_argument("--transcripts", action="store_true", help="also keep the requests and answers of the model")
    parser.add_argument("--report", action="store_true", help="run nothing, report what --out has")
    parser.add_argument("--install", action="store_true", help="create the environments of peers that are not installed")
    parser.add_argument("--write", action="store_true", help="put the tables into RESULTS.md, beside the tables of other models")
    arguments = parser.parse_args()
    if not (arguments.url or arguments.simulated or arguments.report):
        parser.error("Give --url, --simulated or --report.")
    return arguments


def list_jobs(arguments: argparse.Namespace, models: list[str], systems: list[str]) -> list[Job]:
    """List all jobs, a whole repetition before the next, so that a run that is broken off has some of everything."""
    tasks = [
        task.name
        for task in TASKS.values()
        if (arguments.tasks and task.name in arguments.tasks)
        or (
            not arguments.tasks
            and arguments.set in (SET_OF_TASK[task.name], "all")
            and task.kind in (arguments.kinds or [task.kind])
        )
    ]
    repetitions = range(arguments.first, arguments.first + arguments.repetitions)
    return [
        Job(system, task, arm, model, repetition)
        for repetition in repetitions
        for model in models
        for arm in arguments.arms
        for task in tasks
        for system in systems
    ]


def run(arguments: argparse.Namespace, folder: Path) -> None:
    rates: dict[str, Rates] = {}
    if arguments.simulated:
        stated = Rates(**{name: getattr(arguments, name) for name in Rates._fields})
        rates = {"simulated": stated}
        if arguments.sweep is not None:
            rates = {f"simulated-{share:g}": stated.scale(share) for share in arguments.sweep or SWEEP}
    sampling = Sampling(arguments.model, arguments.temperature, arguments.answer_tokens)
    headers = {"Authorization": f"Bearer {arguments.key}"} if arguments.key else {}
    models = [*rates] or [arguments.model.replace("/", "_")]
    proxies = {model: Proxy(arguments.url, sampling, headers) for model in models}
    interpreters = find_interpreters(arguments.systems, may_install=arguments.install)
    jobs = list_jobs(arguments, models, [name for name in arguments.systems if name in interpreters])
    options = Options(folder, arguments.jobs, arguments.limit, arguments.until, arguments.transcripts)
    asyncio.run(run_jobs(jobs, proxies, rates, interpreters, options))


def update_page(rows: list[dict[str, Any]], report: str) -> None:
    """Write RESULTS.md, which keeps its text and the tables of other models, and the picture of its first table if that is new."""
    page = HERE / "RESULTS.md"
    text = page.read_text(encoding="utf-8")
    merged = merge_sections(text, f"\n{report}")
    page.write_text(text[: text.index(SECTION_START)] + merged, encoding="utf-8")
    task_set, model, arm = (rows[0][name] for name in ("set", "model", "arm"))
    if merged.startswith(f"{SECTION_START}`{task_set}`, {model}, arm `{arm}`:"):
        first = [row for row in rows if (row["set"], row["model"], row["arm"]) == (task_set, model, arm)]
        subtitle = f"Set {task_set}, {model}, calls in text {'repaired' if arm == 'repair' else 'left alone'}"
        (HERE / "effect.svg").write_text(picture(list_figures(first), subtitle), encoding="utf-8")


def main() -> None:
    arguments = parse_arguments()
    folder: Path = arguments.out or Path(mkdtemp(prefix="hw-effect-results-"))
    if not arguments.report:
        run(arguments, folder)
    rows = [row for row in read_results(folder) if arguments.set in (row["set"], "all")]
    report = write_report(rows)
    print(report)
    progress(f"All runs are in {folder / 'results.jsonl'}.")
    if arguments.write:
        update_page(rows, report)


if __name__ == "__main__":
    main()
