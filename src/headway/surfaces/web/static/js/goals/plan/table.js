// Rows by id, each in a separate signal: a changed row renders again what shows this row, and nothing else.
import { batch, signal } from "../../core/lib.js";

export function createTable() {
  const rows = new Map();
  const ids = signal(null); // null: not loaded yet

  /** Merge a row into the known one, or add it. Returns the row as it was before. */
  function apply(row) {
    const known = rows.get(row.id);
    if (known) {
      const before = known.peek();
      known.value = { ...before, ...row };
      return before;
    }
    rows.set(row.id, signal(row));
    ids.value = [...(ids.peek() ?? []), row.id];
    return undefined;
  }

  /** Take over a list. Rows that are the same stay the same objects. */
  const replace = (list) =>
    batch(() => {
      const listed = new Set(list.map(({ id }) => id));
      for (const id of rows.keys()) if (!listed.has(id)) rows.delete(id);
      for (const row of list) {
        const known = rows.get(row.id);
        if (!known) rows.set(row.id, signal(row));
        else if (JSON.stringify(known.peek()) !== JSON.stringify(row)) known.value = row;
      }
      const next = list.map(({ id }) => id);
      if (String(ids.peek()) !== String(next) || !ids.peek()) ids.value = next;
    });

  return {
    ids,
    apply,
    replace,
    has: (id) => rows.has(id),
    /** The row, which is followed. */
    read: (id) => rows.get(id)?.value,
    /** The row as it is now. */
    peek: (id) => rows.get(id)?.peek(),
    list: () => (ids.value ?? []).map((id) => rows.get(id).value),
  };
}
