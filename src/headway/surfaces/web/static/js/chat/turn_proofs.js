// The proof of the plan items of a turn. The state of the plan that events carry has no checks, so they are loaded beside it.
import { get } from "../core/api.js";
import { signal } from "../core/lib.js";
import { coalesce, createLiveList } from "../core/live_list.js";

const PAGE_SIZE = 500;

export function createTurnProofs() {
  const proofs = signal(new Map()); // by todo; only those that have checks
  let turnId = null;

  const fetchTodos = async () => ({ of: turnId, todos: (await get("/v1/todos", { turn_id: turnId, limit: PAGE_SIZE })).todos });
  const replace = ({ of, todos }) => {
    if (of === turnId) proofs.value = new Map(todos.filter(({ proof }) => proof !== "none").map(({ id, proof }) => [id, proof]));
  };
  const apply = ({ todo }) => {
    if (todo.turn_id !== turnId || (proofs.value.get(todo.id) ?? "none") === todo.proof) return;
    const next = new Map(proofs.value);
    if (todo.proof === "none") next.delete(todo.id);
    else next.set(todo.id, todo.proof);
    proofs.value = next;
  };
  const { load, onChange } = createLiveList(fetchTodos, replace, apply);
  const reload = coalesce(load);

  /** Show the proofs of another turn. `hasTodos`: whether it has some already. */
  const setTurn = (id, hasTodos = false) => {
    turnId = id;
    proofs.value = new Map();
    if (id && hasTodos) reload();
  };
  return { proofs, setTurn, onChange };
}
