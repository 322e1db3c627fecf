// The tab about tools: the MCP servers that have some, and the policy that decides about calls.
import { html } from "../../core/lib.js";
import { session } from "../../core/session.js";
import { loadServers, McpServers } from "./mcp_servers.js";
import { loadPolicy, Policy } from "./policy.js";
import "./parts.js";

export const load = () => Promise.all([loadPolicy(), session.value?.operator && loadServers()]);
export const on = { approval_decided: loadPolicy };

export const Tab = () => html`${session.value?.operator && html`<${McpServers} />`}<${Policy} />`;
