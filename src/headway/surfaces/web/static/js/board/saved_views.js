// The saved views of the board: named sets of filters, which everybody of the tenant sees.
import { get, patch, post, remove } from "../core/api.js";
import { attempt, showToast } from "../core/dialogs.js";
import { computed, signal } from "../core/lib.js";
import { createLiveList } from "../core/live_list.js";
import { applyFilters, filters, filterText, formatFilters, isFiltered, parseFilters, spellFilters, viewId } from "./filters.js";

/** By name; null: not known yet. */
export const views = signal(null);

const compare = (a, b) => a.name.localeCompare(b.name) || a.id - b.id;

function apply({ change, view }) {
  if (views.value === null) return;
  const known = views.value.find(({ id }) => id === view.id);
  if (known && change !== "deleted" && known.revision > view.revision) return;
  const others = views.value.filter(({ id }) => id !== view.id);
  views.value = change === "deleted" ? others : [...others, view].sort(compare);
}

export const { load: loadViews, onChange: onViewEvent } = createLiveList(
  () => get("/v1/views"),
  (fetched) => (views.value = fetched.views.toSorted(compare)),
  apply,
);

/** The filters of a view as the address has them. Filters that this page does not know are ignored. */
export function formatView({ filters: { conversation_id, agent_id, overdue, ...others } }) {
  const stored = { ...others, conversation: conversation_id, agent: agent_id, overdue: overdue && "1" };
  return formatFilters(parseFilters(formatFilters(stored)));
}

/** The filters in the address as a view stores them. */
function describeFilters() {
  const { conversation, agent, overdue, ...others } = filters.value;
  const conversation_id = conversation && (Number(conversation) || conversation);
  return { ...others, conversation_id, agent_id: agent, ...(overdue && { overdue: true }) };
}

/** The filters of a view, in words. */
export const summarize = (view) => spellFilters(parseFilters(formatView(view)));

const findSame = () => isFiltered.value && views.value?.find((view) => formatView(view) === filterText.value);
/** The view that was opened, or one that has the same filters; null: none, or not known yet. */
export const activeView = computed(() => views.value?.find(({ id }) => id === viewId.value) || findSame() || null);
/** Whether the board shows something else than the view that was opened. */
export const isEdited = computed(() => activeView.value !== null && formatView(activeView.value) !== filterText.value);

const put = ({ view }) => onViewEvent({ change: "updated", view });

/** Save what the board shows as a new view, and open it. */
export async function saveView(name) {
  const answer = await post("/v1/views", { name, filters: describeFilters() });
  put(answer);
  applyFilters(filterText.value, { replace: true, view: answer.view.id });
}

/** Give a view the filters that the board shows. It is refused if another person has changed the view meanwhile. */
export const updateView = async ({ id, revision }) => put(await patch(`/v1/views/${id}`, { filters: describeFilters(), revision }));

export const renameView = async ({ id }, name) => put(await patch(`/v1/views/${id}`, { name }));

const restore = ({ name, filters: stored }) => attempt(async () => put(await post("/v1/views", { name, filters: stored })));

/** Delete a view, and offer to undo that. The board stays as it is. */
export async function deleteView(view) {
  await remove(`/v1/views/${view.id}`);
  onViewEvent({ change: "deleted", view });
  showToast(`Deleted the view “${view.name}”.`, "info", { label: "Undo", run: () => restore(view) });
}
