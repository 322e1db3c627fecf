// The part of a goal that is on screen, as its address has it: ?view=list&sub=12
import { computed } from "../../core/lib.js";
import { navigate, path, search } from "../../core/router.js";

const read = (name) => new URLSearchParams(search.value).get(name);

export const chosenView = computed(() => read("view"));

/** The id of the sub-goal whose details are open, or null. */
export const pickedId = computed(() => {
  const id = Number(read("sub"));
  return Number.isSafeInteger(id) && id > 0 ? id : null;
});

function setParameter(name, value) {
  const parameters = new URLSearchParams(search.peek());
  if (value === null) parameters.delete(name);
  else parameters.set(name, value);
  const query = String(parameters);
  navigate(`${path.peek()}${query && `?${query}`}`, { replace: true });
}

export const chooseView = (name) => setParameter("view", name);
export const pick = (id) => setParameter("sub", id === null ? null : String(id));
/** Open the details of a sub-goal, or close them if they are open. */
export const toggle = (id) => pick(pickedId.peek() === id ? null : id);
