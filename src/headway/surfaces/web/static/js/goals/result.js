// What became of a goal that has ended. It comes first on the page: how it ended, what came out of it, and the files.
import { get, post } from "../core/api.js";
import { ask, attempt } from "../core/dialogs.js";
import { html, useEffect, useState } from "../core/lib.js";
import { navigate } from "../core/router.js";
import { Ago, Card, formatDuration, formatMoney, Icon, pluralize } from "../core/ui.js";
import { VisibleText } from "../core/visible_text.js";
import { Markdown } from "../markdown/markdown.js";
import { formatTokens } from "./plan/sub_goal.js";

const FILES_LIMIT = 50;
const ENDINGS = { completed: "Completed", abandoned: "Abandoned" };

/** The last words of the goal: the summary of its main agent, or why it was given up. */
function findOutcome(goal, entries) {
  const last = entries.find(({ kind }) => kind === goal.status);
  return last?.data.summary ?? last?.data.reason ?? goal.pause_reason ?? "";
}

function formatSize(bytes) {
  if (bytes < 1024) return `${bytes} B`;
  return bytes < 1024 ** 2 ? `${Math.round(bytes / 1024)} KB` : `${(bytes / 1024 ** 2).toFixed(1)} MB`;
}

/** A file as its version at the end of the goal. */
const FileItem = ({ file }) => html`<li>
  <${Icon} name="file" />
  <a class="link" href="/files/${file.id}?version=${file.version.n}"><bdi><${VisibleText} text=${file.path} /></bdi></a>
  <span class="faint num">${file.version.change === "deleted" ? "deleted" : formatSize(file.version.size)}</span>
</li>`;

/** The files that the goal's agents wrote. */
function Files({ goalId }) {
  const [page, setPage] = useState(null);
  useEffect(() => {
    attempt(async () => setPage(await get("/v1/files", { goal_id: goalId, limit: FILES_LIMIT })));
  }, [goalId]);
  if (!page?.files.length) return null;
  return html`<section class="result-files" aria-label="Files">
    <h3>${page.next_cursor ? `The last ${FILES_LIMIT} files` : pluralize(page.files.length, "file")}</h3>
    <ul>${page.files.map((file) => html`<${FileItem} key=${file.id} file=${file} />`)}</ul>
    ${page.next_cursor && html`<p><a class="link" href="/files?goal_id=${goalId}">All files of this goal</a></p>`}
  </section>`;
}

const REPEAT = "A new goal starts now, with the same text, criteria, checks and limits, and a new plan. This one stays as it is.";

function RunAgain({ path }) {
  const start = async () => navigate(`/goals/${(await post(`${path}/run-again`)).goal.id}`);
  const confirm = () =>
    ask({ title: "Run this goal again?", text: REPEAT, confirm: "Run it again", cancel: "Not now", danger: false, run: start });
  return html`<button class="btn small" title=${REPEAT} onClick=${confirm}><${Icon} name="replan" />Run again</button>`;
}

function Facts({ state }) {
  const goal = state.goal.value;
  const { planned, completed, diverged, failed } = state.counts.value;
  const usage = state.usage.value;
  const facts = [
    `${completed} of ${pluralize(planned, "sub-goal")} done`,
    diverged > 0 && `${diverged} diverged`,
    failed > 0 && `${failed} failed`,
    `took ${formatDuration(goal.ended_at - goal.created_at)}`,
    formatMoney(goal.cost_usd),
    usage && usage.input_tokens + usage.output_tokens > 0 && formatTokens(usage),
  ];
  return html`<p class="result-facts muted num">
    ${ENDINGS[goal.status]} <${Ago} at=${goal.ended_at} /> · ${facts.filter(Boolean).join(" · ")}
  </p>`;
}

export function Result({ state }) {
  const goal = state.goal.value;
  const outcome = findOutcome(goal, state.entries.value);
  const again = html`<${RunAgain} path=${state.path} />`;
  return html`<${Card} title="Result" actions=${again}>
    <div class="result">
      <${Facts} state=${state} />
      ${outcome ? html`<${Markdown} text=${outcome} />` : html`<p class="faint">It ended without a report.</p>`}
      <${Files} goalId=${goal.id} />
    </div>
  <//>`;
}
