// The policy: the rules in force in order, what would happen to a call, and decisions for always that can be taken back.
import { get, post, remove } from "../../core/api.js";
import { ask, attempt } from "../../core/dialogs.js";
import { html, signal, useState } from "../../core/lib.js";
import { session } from "../../core/session.js";
import { Card, Empty, Icon } from "../../core/ui.js";
import { Known } from "../parts.js";

const DECISIONS = {
  allow: ["done", "allow", "It would be made at once"],
  ask: ["paused", "ask", "It would wait for a person's approval"],
  deny: ["failed", "deny", "It would be refused"],
};
const NO_RULE = "No rule matches, and the tool needs no approval by default.";
const EXAMPLE = '{"path": "secrets/x"}';

const policy = signal(null);
const tried = signal(null); // the last answer

export const loadPolicy = async () => (policy.value = await get("/v1/policy"));

const Decision = ({ name }) => {
  const [status, label] = DECISIONS[name];
  return html`<span class="pill status-${status}"><${Icon} name=${status} />${label}</span>`;
};

const Pattern = ({ name, value }) =>
  value !== "*" && html` <span class="pattern"><span class="faint">${name}</span> <code>${value}</code></span>`;

const Source = ({ rule, file }) =>
  rule.approval
    ? html`a decision for always · <a class="link" href="/inbox/${rule.approval}">approval ${rule.approval}</a>`
    : html`${file}, line ${rule.line}`;

function askToForget(rule) {
  ask({
    title: "Ask about such calls again?",
    text: `The rule that allows ${rule.tool} for ${rule.role}, from approval ${rule.approval}, is removed from the policy.`,
    confirm: "Remove the rule",
    run: async () => {
      await remove(`/v1/policy/always/${rule.approval}`);
      tried.value = null;
      await loadPolicy();
    },
  });
}

function Rule({ rule, file, isDeciding }) {
  const canForget = rule.approval > 0 && session.value?.admin;
  return html`<li class=${isDeciding ? "deciding" : ""}>
    <${Decision} name=${rule.decision} />
    <div class="grow">
      <div>
        <code>${rule.tool}</code>
        ${["role", "server", "tenant"].map((name) => html`<${Pattern} key=${name} name=${name} value=${rule[name]} />`)}
        ${Object.entries(rule.arguments).map(([name, glob]) => html`<${Pattern} key=${name} name="${name} =" value=${glob} />`)}
      </div>
      <div class="sub">
        <${Source} rule=${rule} file=${file} />${isDeciding && html` · <strong>decides the call below</strong>`}
      </div>
    </div>
    ${
      canForget &&
      html`<div class="actions">
        <button
          class="btn small danger"
          aria-label="Remove the rule of approval ${rule.approval}"
          onClick=${() => askToForget(rule)}
        >Remove</button>
      </div>`
    }
  </li>`;
}

const Verdict = ({ answer }) => html`<div class="ruling" role="status">
  <p class="name-line"><${Decision} name=${answer.decision} /><strong>${DECISIONS[answer.decision][2]}.</strong></p>
  <p class="hint" dir="auto">${answer.why ? `Because of: ${answer.why}.` : NO_RULE}</p>
  ${answer.problem && html`<p class="hint status-late" dir="auto">The tool would refuse these arguments: ${answer.problem}</p>`}
</div>`;

function TryCall({ tools, roles }) {
  const [problem, setProblem] = useState("");
  const send = async (event) => {
    event.preventDefault();
    const { tool, role, args } = Object.fromEntries(new FormData(event.currentTarget));
    let parsed = {};
    try {
      parsed = args.trim() ? JSON.parse(args) : {};
    } catch {
      setProblem(`The arguments are not JSON. Write them like ${EXAMPLE}.`);
      return;
    }
    setProblem("");
    tried.value = (await attempt(() => post("/v1/policy/test", { tool, role, arguments: parsed }))) ?? null;
  };
  return html`<form class="try-call" aria-label="Try a call" onSubmit=${send}>
    <h3>What would happen to a call?</h3>
    <div class="try-fields">
      <label class="field">Tool<input name="tool" list="policy-tools" required maxlength="200" autocomplete="off" /></label>
      <datalist id="policy-tools">${tools.map((tool) => html`<option key=${tool} value=${tool} />`)}</datalist>
      <label class="field">Role
        <select name="role">${roles.map((role) => html`<option key=${role} value=${role}>${role}</option>`)}</select>
      </label>
      <label class="field wide">Arguments, as JSON
        <input name="args" maxlength="5000" placeholder=${EXAMPLE} autocomplete="off" dir="auto" />
      </label>
      <button class="btn">Test it</button>
    </div>
    ${problem && html`<p class="problem" role="alert">${problem}</p>`}
    ${tried.value && html`<${Verdict} answer=${tried.value} />`}
  </form>`;
}

const Rules = ({ rules, file }) =>
  rules.length
    ? html`<ol class="rows rules" aria-label="Rules in order">
        ${rules.map((rule) => {
          const isDeciding = Boolean(tried.value?.rule) && tried.value.rule.line === rule.line;
          return html`<${Rule} key=${rule.line} rule=${rule} file=${file} isDeciding=${isDeciding} />`;
        })}
      </ol>`
    : html`<${Empty}>No rules. Write them into ${file} in the home; Headway reads it again whenever it changes.<//>`;

const Content = ({ known: { rules, defaults, tools, roles, file, problem } }) => html`
  ${
    problem &&
    html`<p class="policy-problem" role="alert">
      <${Icon} name="warn" /><span dir="auto">${file} was changed, but earlier rules stay in force: ${problem}</span>
    </p>`
  }
  <${Rules} rules=${rules} file=${file} />
  <p class="hint below">
    The first rule that matches decides. Otherwise these tools need approval: ${defaults.length ? defaults.join(", ") : "none"}. All
    others are allowed.
  </p>
  <${TryCall} tools=${tools} roles=${roles} />`;

export const Policy = () => html`<${Card} title="Policy" count=${policy.value?.rules.length}>
  <${Known} value=${policy.value}>${(known) => html`<${Content} known=${known} />`}<//>
<//>`;
