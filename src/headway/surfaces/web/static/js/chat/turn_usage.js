// The usage of a turn: its models, its time, its tokens and its cost, in one line below it.
import { html } from "../core/lib.js";

const ENDS = ["turn_finished", "turn_failed", "turn_canceled"];

/** Add the line to the items when a turn has ended, and remove it when the turn is resumed. */
export function placeUsage(list, kind, { turn_id, models, usage, duration_s: seconds }) {
  const key = `u${turn_id}`;
  const isEnd = ENDS.includes(kind) && models?.length > 0; // a turn that was stopped in its first answer has no counted call
  if (!isEnd && kind !== "turn_resumed") return list;
  const others = list.filter((item) => item.key !== key);
  return isEnd ? [...others, { key, type: "usage", turnId: turn_id, models, usage, seconds }] : others;
}

const stripProvider = (model) => model.slice(model.indexOf(":") + 1);

const formatTime = (seconds) => {
  const rounded = Math.round(seconds);
  if (seconds < 10) return `${Math.max(0.1, seconds).toFixed(1)} s`;
  if (rounded < 60) return `${rounded} s`;
  return rounded < 3600
    ? `${Math.floor(rounded / 60)} min ${rounded % 60} s`
    : `${Math.floor(rounded / 3600)} h ${Math.floor((rounded % 3600) / 60)} min`;
};

const formatCount = (count) => {
  if (count < 1000) return String(count);
  return count < 999_950 ? `${(count / 1000).toFixed(1).replace(".0", "")}k` : `${(count / 1e6).toFixed(1)}M`;
};

const formatCost = (dollars) => {
  const digits = dollars < 0.01 ? 4 : dollars < 1 ? 3 : 2;
  return `$${dollars.toFixed(digits)}`;
};

function listParts({ models, usage, seconds }) {
  const tokens = usage.input_tokens + usage.output_tokens;
  const cached = usage.cached_tokens ? ` (${formatCount(usage.cached_tokens)} cached)` : "";
  return [
    models.map(stripProvider).join(", "),
    formatTime(seconds),
    tokens > 0 && `${formatCount(tokens)} tokens${cached}`,
    usage.cost_usd > 0 && formatCost(usage.cost_usd),
  ].filter(Boolean);
}

export const TurnUsage = ({ item }) => html`<li class="turn-usage" dir="auto" title=${item.models.join(", ")}>
  <span class="sr-only">This turn used </span>${listParts(item).join(" · ")}
</li>`;
