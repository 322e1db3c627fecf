// The tab about access: tokens and sessions of the tenant and, for those who run the installation, all tenants.
import { html } from "../../core/lib.js";
import { session } from "../../core/session.js";
import { SecretDialog } from "./parts.js";
import { loadTenants, Tenants } from "./tenants.js";
import { loadTokens, Sessions, Tokens } from "./tokens.js";

export const load = () => Promise.all([loadTokens(), session.value?.operator && loadTenants()]);
export const on = {};

export const Tab = () => html`<${Tokens} />
  <${Sessions} />
  ${session.value?.operator && html`<${Tenants} />`}
  <${SecretDialog} />`;
