// The log as blocks: messages and notes one by one, and between them groups of steps. A step is one answer of the model: its calls,
// and the remark beside them. Blocks and steps that did not change stay the same objects, so that they are not drawn again.
import { isPlanCall, startsPlan } from "./plan_sentences.js";

const REMARK_LENGTH = 160;

/** A short text beside calls is the title of their step. A longer one is a message. */
const isRemark = ({ type, step, text }) =>
  type === "assistant" && step !== undefined && text.length <= REMARK_LENGTH && !text.trim().includes("\n");
const belongsToStep = (item) => (item.type === "tool" && !item.request) || item.type === "agent" || isRemark(item);

const isPlanStep = ({ remark, calls }) => !remark && calls.length > 0 && calls.every(isPlanCall);

/** The steps of consecutive items: {key, n, remark, calls, run}. `run`: the sub-agent that works at this step. */
function listSteps(items) {
  const steps = [];
  for (const item of items) {
    const last = steps.at(-1);
    const isSame = last && !last.run && item.step !== undefined && last.n === item.step;
    if (item.run) steps.push({ key: `step-${item.key}`, calls: [item], run: item.run });
    else if (item.type === "assistant") steps.push({ key: `step-${item.key}`, n: item.step, remark: item, calls: [] });
    else if (isSame) last.calls.push(item);
    else steps.push({ key: `step-${item.key}`, n: item.step, calls: [item] });
  }
  return mergePlanSteps(steps);
}

/** Consecutive steps that only keep the books of the plan become one. */
function mergePlanSteps(steps) {
  const merged = [];
  for (const step of steps) {
    const last = merged.at(-1);
    if (last && isPlanStep(last) && isPlanStep(step) && !step.calls.some(startsPlan)) last.calls.push(...step.calls);
    else merged.push(step);
  }
  return merged;
}

const hasSameItems = (a, b) => a.length === b.length && a.every((item, n) => item === b[n]);
const isSameStep = (a, b) => a.run === b.run && a.remark === b.remark && hasSameItems(a.calls, b.calls);

/** Keep the old objects of steps that did not change. */
function reuseSteps(steps, before) {
  const known = new Map(before.map((step) => [step.key, step]));
  return steps.map((step) => (known.has(step.key) && isSameStep(known.get(step.key), step) ? known.get(step.key) : step));
}

function completeGroup(group, before) {
  const isUnchanged = before && before.isRunning === group.isRunning && hasSameItems(before.items, group.items);
  if (isUnchanged) return before;
  return { ...group, steps: reuseSteps(listSteps(group.items), before?.steps ?? []) };
}

/** Returns a function that turns the items of a timeline into blocks. `runningId`: the turn that runs. */
export function createBlocks() {
  let groups = new Map(); // by key, as of the last call
  return (items, runningId) => {
    const blocks = [];
    let group = null;
    let since; // when the item before was written
    for (const item of items) {
      if (!belongsToStep(item)) {
        group = null;
        blocks.push(item);
      } else {
        if (group?.turnId !== item.turnId) {
          group = { key: `steps-${item.key}`, type: "steps", turnId: item.turnId, since, items: [], isRunning: false };
          blocks.push(group);
        }
        group.items.push(item);
      }
      since = item.endedAt ?? item.at ?? since;
    }
    if (group && group.turnId === runningId) group.isRunning = true;
    const before = groups;
    groups = new Map();
    return blocks.map((block) => {
      if (block.type !== "steps") return block;
      const complete = completeGroup(block, before.get(block.key));
      groups.set(block.key, complete);
      return complete;
    });
  };
}
