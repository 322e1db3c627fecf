// The statuses of todos, and which changes the ledger accepts.

export const COLUMNS = [
  ["in_progress", "In progress"],
  ["pending", "Pending"],
  ["completed", "Done"],
  ["canceled", "Canceled"],
];
export const STATUSES = COLUMNS.map(([status]) => status);
export const LABELS = Object.fromEntries(COLUMNS);
// The ledger's own table, repeated here so that the page offers only what the ledger accepts. A test compares the two.
export const LEGAL_TRANSITIONS = {
  pending: ["in_progress", "completed", "canceled"],
  in_progress: ["pending", "completed", "canceled"],
  completed: ["pending", "in_progress"],
  canceled: ["pending", "in_progress"],
};

export const isEnded = (status) => status === "completed" || status === "canceled";
export const listChoices = (status) => [status, ...LEGAL_TRANSITIONS[status]].map((name) => [name, LABELS[name]]);
