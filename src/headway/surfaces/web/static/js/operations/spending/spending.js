// Spending: the pool of the last 24 hours, and the history of days.
import { html } from "../../core/lib.js";
import { coalesce } from "../../core/live_list.js";
import { History, loadHistory } from "./history.js";
import { loadCosts, Pool } from "./pool.js";

export const load = () => Promise.all([loadCosts(), loadHistory()]);

const reload = coalesce(loadCosts);
export const on = { cost_changed: reload, cost_limit_changed: reload };

export const Tab = () => html`<${Pool} /><${History} />`;
