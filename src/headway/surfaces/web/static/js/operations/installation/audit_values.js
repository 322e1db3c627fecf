// The changes of an entry of the audit log, field by field.
const VALUE_LENGTH = 200; // characters of a value that are shown
const CHANGES_LIMIT = 12;
const UNSPOKEN = new Set(["id", "tenant_id", "session_of", "last_used_at", "created_at"]); // the target and the time say it

const isObject = (value) => value !== null && typeof value === "object" && !Array.isArray(value);
const isEqual = (one, other) => JSON.stringify(one) === JSON.stringify(other);
const isNothing = (value) => value === null || value === undefined || value === "" || value === 0 || value === false;

const isTime = (name, value) => (name === "since" || name.endsWith("_at")) && Number.isInteger(value);
const isTextList = (value) => Array.isArray(value) && value.every((item) => typeof item === "string");

export function formatValue(value, name = "") {
  if (value === null) return "none";
  if (value === "") return "empty";
  if (isTime(name, value)) return value ? new Date(value * 1000).toLocaleString() : "never";
  if (isTextList(value)) return value.join(", ") || "none";
  const text = typeof value === "string" ? value : JSON.stringify(value);
  return text.length > VALUE_LENGTH ? `${text.slice(0, VALUE_LENGTH)}…` : text;
}

/** List the fields that differ, as {name, old, next}. A field that only one side has is `undefined` on the other. */
export function listChanges(old, next) {
  if (!isObject(old) && !isObject(next)) {
    if (isEqual(old, next)) return [];
    return [{ name: "", old: old ?? undefined, next: next ?? undefined }];
  }
  const before = isObject(old) ? old : {};
  const after = isObject(next) ? next : {};
  const names = [...new Set([...Object.keys(before), ...Object.keys(after)])];
  return names
    .filter((name) => !UNSPOKEN.has(name) && !isEqual(before[name], after[name]))
    .filter((name) => name in before || !isNothing(after[name])) // a new row has many fields that say nothing
    .slice(0, CHANGES_LIMIT)
    .map((name) => ({ name, old: before[name], next: after[name] }));
}
