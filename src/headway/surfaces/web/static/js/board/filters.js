// The filters of the board, as the address has them: ?status=pending&conversation=7&agent=ci&proof=broken&q=deploy&priority=high
// &label=home&overdue=1. With view=3 before them, the filters come from that saved view and may have been changed since.
import { conversations, formatTitle } from "../chat/conversations.js";
import { computed, html, signal, useEffect, useRef } from "../core/lib.js";
import { navigate, path, search } from "../core/router.js";
import { Icon, Select } from "../core/ui.js";
import { LABELS, STATUSES } from "../work/statuses.js";
import { isOverdue, LABEL_LENGTH, PRIORITIES } from "../work/todo_fields.js";

const NAMES = ["status", "conversation", "agent", "proof", "priority", "label", "overdue", "q"];
const PROOFS = ["unproven", "proven", "overridden", "broken", "none"];
const DUE_OPTIONS = [
  ["", "Due at any time"],
  ["1", "Overdue"],
];
const TENANT_WIDE = "tenant";
const TYPING_MS = 250;
const QUERY_LENGTH = 200;

const isKnown = {
  status: (value) => STATUSES.includes(value),
  conversation: (value) => value === TENANT_WIDE || /^[1-9]\d{0,17}$/.test(value),
  agent: (value) => value !== "" && value.length <= 200,
  proof: (value) => PROOFS.includes(value),
  priority: (value) => PRIORITIES.includes(value),
  label: (value) => value.trim() !== "" && value.length <= LABEL_LENGTH,
  overdue: (value) => value === "1",
  q: (value) => value.trim() !== "",
};

/** The filters in the address; what is not one is ignored. */
export function parseFilters(text) {
  const query = new URLSearchParams(text);
  const pairs = NAMES.map((name) => [name, query.get(name)?.slice(0, name === "q" ? QUERY_LENGTH : undefined)]);
  return Object.fromEntries(pairs.filter(([name, value]) => value !== undefined && isKnown[name](value)));
}

/** The filters as the address has them. The same filters give the same text. */
export const formatFilters = (filters) =>
  new URLSearchParams(NAMES.filter((name) => filters[name]).map((name) => [name, filters[name]])).toString();

export const filterText = computed(() => formatFilters(parseFilters(search.value)));
export const filters = computed(() => parseFilters(filterText.value));
export const isFiltered = computed(() => filterText.value !== "");
/** The id of the saved view that was opened, or 0. */
export const viewId = computed(() => Number(/^[1-9]\d{0,14}$/.exec(new URLSearchParams(search.value).get("view"))?.[0] ?? 0));
export const shownStatuses = computed(() => (filters.value.status ? [filters.value.status] : STATUSES));

/** The address of the board with these filters, which may be from a saved view. The open todo stays open. */
export function formatBoard(text, view = 0) {
  const query = [view ? `view=${view}` : "", text].filter(Boolean).join("&");
  return query ? `${path.value}?${query}` : path.value;
}

/** Show other todos. */
export const applyFilters = (text, { replace = false, view = 0 } = {}) =>
  navigate(formatBoard(text, view), { replace, state: replace ? history.state : null });

const choose = (name, value, options) =>
  applyFilters(formatFilters({ ...filters.value, [name]: value }), { ...options, view: viewId.value });

/** The filters as a query of the API, without the status and the text. */
export function buildQuery({ conversation, agent, proof, priority, label, overdue }) {
  return {
    ...(conversation && { conversation_id: conversation, own: "true" }),
    ...(agent && { agent_id: agent }),
    ...(proof && { proof }),
    ...(priority && { priority }),
    ...(label && { label }),
    ...(overdue && { overdue }),
  };
}

const hasWords = (todo, text) => {
  const content = [`#${todo.id}`, todo.subject, todo.description, todo.completion_criteria, todo.outcome]
    .join("\n")
    .toLocaleLowerCase();
  return text
    .toLocaleLowerCase()
    .split(/\s+/)
    .every((word) => content.includes(word));
};

/** Whether a todo that an event reports belongs on the board. */
export function matchesFilters(todo) {
  const { status, conversation, agent, proof, priority, label, overdue, q } = filters.value;
  const listId = conversation === TENANT_WIDE ? 0 : Number(conversation);
  return (
    (!status || todo.status === status) &&
    (!conversation || todo.conversation_id === listId) &&
    (!agent || todo.agent_id === agent) &&
    (!proof || todo.proof === proof) &&
    (!priority || todo.priority === priority) &&
    (!label || todo.labels?.includes(label)) &&
    (!overdue || isOverdue(todo)) &&
    (!q || hasWords(todo, q))
  );
}

/** The filters in words. */
export function spellFilters({ status, conversation, agent, proof, priority, label, overdue, q }) {
  const find = (id) => conversations.value.find((one) => String(one.id) === id);
  const list =
    conversation === TENANT_WIDE ? "tenant-wide" : conversation && formatTitle(find(conversation) ?? { id: conversation });
  const proven = proof === "none" ? "without checks" : proof && `proof: ${proof}`;
  return [LABELS[status], list, agent, proven, priority && `${priority} priority`, label, overdue && "overdue", q && `“${q}”`]
    .filter(Boolean)
    .join(" · ");
}

/** The list that a new todo goes to. */
export const getListId = () => Number(filters.value.conversation) || 0;

function Search() {
  const field = useRef();
  const timer = useRef(0);
  const q = filters.value.q ?? "";
  useEffect(() => {
    if (document.activeElement !== field.current) field.current.value = q;
  }, [q]);
  useEffect(() => () => clearTimeout(timer.current), []);
  const apply = () => {
    clearTimeout(timer.current);
    choose("q", field.current.value.trim(), { replace: true });
  };
  const onInput = () => {
    clearTimeout(timer.current);
    timer.current = setTimeout(apply, TYPING_MS);
  };
  const onKeyDown = (event) => {
    if (event.key === "Enter") apply();
    if (event.key !== "Escape" || !field.current.value) return;
    event.preventDefault();
    field.current.value = "";
    apply();
  };
  return html`<input
    ref=${field}
    type="search"
    class="search"
    aria-label="Search todos"
    placeholder="Search, or #12"
    maxlength=${QUERY_LENGTH}
    autocomplete="off"
    defaultValue=${q}
    onInput=${onInput}
    onKeyDown=${onKeyDown}
  />`;
}

const agents = signal(new Set());
const labels = signal(new Set());

/** Offer the agents and the labels of todos on the board. */
export function offerFilters(todos) {
  agents.value = new Set([...agents.value, ...todos.map((todo) => todo.agent_id)]);
  labels.value = new Set([...labels.value, ...todos.flatMap((todo) => todo.labels ?? [])]);
}

export function Filters() {
  const { status = "", conversation = "", agent = "", proof = "", priority = "", label = "", overdue = "" } = filters.value;
  const conversationOptions = [
    ["", "All conversations"],
    [TENANT_WIDE, "Tenant-wide"],
    ...conversations.value.map(({ id, title }) => [String(id), formatTitle({ id, title })]),
  ];
  if (conversation && !conversationOptions.some(([name]) => name === conversation))
    conversationOptions.push([conversation, formatTitle({ id: conversation, title: "" })]); // older than those that are listed
  const list = (names, chosen) => [...new Set([...names, ...(chosen ? [chosen] : [])])].sort().map((name) => [name, name]);
  const agentOptions = [["", "All agents"], ...list(agents.value, agent)];
  const labelOptions = [["", "All labels"], ...list(labels.value, label)];
  const priorityOptions = [["", "Any priority"], ...PRIORITIES.map((name) => [name, name])];
  const statusOptions = [["", "All statuses"], ...STATUSES.map((name) => [name, LABELS[name]])];
  const proofOptions = [["", "Any proof"], ...PROOFS.map((name) => [name, name === "none" ? "without checks" : name])];
  return html`<div class="filters" role="group" aria-label="Filters">
    <${Search} />
    <${Select} label="Status filter" value=${status} options=${statusOptions} onChoose=${(value) => choose("status", value)} />
    <${Select}
      label="Conversation"
      value=${conversation}
      options=${conversationOptions}
      onChoose=${(value) => choose("conversation", value)}
    />
    <${Select} label="Agent" value=${agent} options=${agentOptions} onChoose=${(value) => choose("agent", value)} />
    <${Select} label="Proof" value=${proof} options=${proofOptions} onChoose=${(value) => choose("proof", value)} />
    <${Select} label="Priority" value=${priority} options=${priorityOptions} onChoose=${(value) => choose("priority", value)} />
    ${
      labelOptions.length > 1 &&
      html`<${Select} label="Label" value=${label} options=${labelOptions} onChoose=${(value) => choose("label", value)} />`
    }
    <${Select} label="Due" value=${overdue} options=${DUE_OPTIONS} onChoose=${(value) => choose("overdue", value)} />
    ${
      isFiltered.value &&
      html`<button class="btn ghost small" onClick=${() => applyFilters("")}><${Icon} name="close" />Clear</button>`
    }
  </div>`;
}
