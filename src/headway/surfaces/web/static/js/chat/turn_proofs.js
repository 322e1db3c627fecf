// The todos of a turn as the ledger has them. The state of the plan that events carry names neither their exact status nor their
// checks, so they are loaded beside it.
import { get } from "../core/api.js";
import { computed, signal } from "../core/lib.js";
import { coalesce, createLiveList } from "../core/live_list.js";

const PAGE_SIZE = 500;

/** The todos of the turn on screen, by id: {status, subject, proof}. */
export const turnTodos = signal(new Map());
const proofs = computed(
  () => new Map([...turnTodos.value].filter(([, { proof }]) => proof !== "none").map(([id, { proof }]) => [id, proof])),
);

const pick = ({ id, status, subject, proof }) => [id, { status, subject, proof }];
const isSame = (a, b) => a?.status === b.status && a.subject === b.subject && a.proof === b.proof;

export function createTurnProofs() {
  let turnId = null;

  const fetchTodos = async () => ({ of: turnId, todos: (await get("/v1/todos", { turn_id: turnId, limit: PAGE_SIZE })).todos });
  const replace = ({ of, todos }) => {
    if (of === turnId) turnTodos.value = new Map(todos.map(pick));
  };
  const apply = ({ todo, change }) => {
    if (todo.turn_id !== turnId) return;
    const [id, facts] = pick(todo);
    const next = new Map(turnTodos.value);
    if (change === "deleted") next.delete(id);
    else if (isSame(next.get(id), facts)) return;
    else next.set(id, facts);
    turnTodos.value = next;
  };
  const { load, onChange } = createLiveList(fetchTodos, replace, apply);
  const reload = coalesce(load);

  /** Show the todos of another turn. `hasTodos`: whether it has some already. */
  const setTurn = (id, hasTodos = false) => {
    turnId = id;
    turnTodos.value = new Map();
    if (id && hasTodos) reload();
  };
  return { proofs, setTurn, onChange };
}
