// Collects the files that the agents of a turn wrote. The component that shows them is loaded with the first file.
import { createLazy } from "../core/dialogs.js";

const ENDS = ["turn_finished", "turn_failed", "turn_canceled"];

/** Collects files from the results of calls, also of sub-agents, and adds them to the items when a turn has ended. */
export function createTurnFiles() {
  const byTurn = new Map(); // turn → {files by id, the number of files that events left out}
  const place = (list, kind, { turn_id: turnId, files, omitted_files: omitted }) => {
    const known = byTurn.get(turnId) ?? { files: new Map(), omitted: 0 };
    if (kind === "tool_result" && files) {
      for (const file of files) known.files.set(file.id, file);
      byTurn.set(turnId, { ...known, omitted: known.omitted + omitted });
    }
    if (kind !== "turn_resumed" && !(ENDS.includes(kind) && known.files.size)) return list;
    const key = `w${turnId}`;
    const others = list.filter((item) => item.key !== key);
    return kind === "turn_resumed"
      ? others
      : [...others, { key, type: "files", turnId, ...known, files: [...known.files.values()] }];
  };
  return { place, reset: () => byTurn.clear() };
}

export const WrittenFiles = createLazy(async () => (await import("../files/turn_files.js")).WrittenFiles);
