// Messages that are not sent yet, by conversation. This browser keeps their text, so that a reload loses nothing.
import { createKey, signedOut } from "../core/api.js";
import { effect, preferences } from "../core/lib.js";
import { DRAFTS, session } from "../core/session.js";

const DRAFTS_LIMIT = 30; // the oldest are removed
const LENGTH_LIMIT = 200_000; // the server accepts no longer message

// By name in the storage: {text, files, key, isTried: whether it was sent with the key, lostFiles: names}
const drafts = new Map();
effect(() => {
  if (signedOut.value === "missing") drafts.clear();
});

const getName = (id) => `${DRAFTS}${session.value?.tenant ?? ""}:${id ?? "new"}`;
const createDraft = () => ({ text: "", files: [], key: createKey(), isTried: false, lostFiles: [] });

function readStored(name) {
  try {
    return JSON.parse(preferences.get(name) ?? "null");
  } catch {
    return null; // not ours
  }
}

function restore(name) {
  const stored = readStored(name);
  if (typeof stored?.text !== "string") return createDraft();
  const { text, key, isTried, files: lostFiles } = stored;
  const draft = { ...createDraft(), text, lostFiles };
  // The same message again has the same key, so that the server stores it once.
  return lostFiles.length ? draft : { ...draft, key, isTried };
}

export function getDraft(id) {
  const name = getName(id);
  if (!drafts.has(name)) drafts.set(name, restore(name));
  return drafts.get(name);
}

export function saveDraft(id) {
  const { text, files, key, isTried } = getDraft(id);
  const name = getName(id);
  if (!text || text.length > LENGTH_LIMIT) return preferences.set(name, null);
  const names = files.map((file) => file.name);
  preferences.set(name, JSON.stringify({ text, key, isTried, files: names, at: Date.now() }));
  const kept = preferences.list(DRAFTS);
  if (kept.length <= DRAFTS_LIMIT) return;
  const oldest = kept.sort((one, other) => (readStored(one)?.at ?? 0) - (readStored(other)?.at ?? 0));
  for (const old of oldest.slice(0, kept.length - DRAFTS_LIMIT)) preferences.set(old, null);
}

/** Change a draft. After a failed attempt it is another message then, with another key. */
export function changeDraft(id, change) {
  const draft = getDraft(id);
  Object.assign(draft, change, draft.isTried && { key: createKey(), isTried: false });
  saveDraft(id);
}

/** Forget a draft that was sent, and keep what was added since then. */
export function replaceDraft(id, later, nextId) {
  drafts.delete(getName(id));
  preferences.set(getName(id), null);
  if (later.text || later.files.length) changeDraft(nextId, later);
}
