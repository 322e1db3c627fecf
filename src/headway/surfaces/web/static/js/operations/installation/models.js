// The models of the tiers: what each is, and whether it answers.
import { get, post } from "../../core/api.js";
import { attempt } from "../../core/dialogs.js";
import { html, signal, useRef, useState } from "../../core/lib.js";
import { Card, formatMoney, Icon, StatusIcon } from "../../core/ui.js";
import { VisibleText } from "../../core/visible_text.js";
import { Known } from "../parts.js";

const QUESTION = "Answer with one short sentence that says who you are.";
const PURPOSES = {
  strong: "answers people and plans",
  mid: "does the work of sub-agents",
  cheap: "assesses, evaluates and summarises",
};

const tiers = signal(null);

export const loadTiers = async () => (tiers.value = (await get("/v1/tiers")).tiers);

function describeTier({ host, context_tokens, context_source, max_output_tokens, supports_tools, fallback }) {
  const facts = [
    host || "in this process",
    `${context_tokens.toLocaleString()} tokens of context${context_source === "set" ? " (set)" : ""}`,
    `answers of up to ${max_output_tokens.toLocaleString()}`,
    supports_tools ? "calls tools" : "no function calling",
  ];
  if (fallback.length) facts.push(`then ${fallback.join(", ")}`);
  return facts.join(" · ");
}

const Answer = ({ trial }) => html`<div class="trial" role="status">
  <p class="name-line">
    <${StatusIcon} status=${trial.ok ? "done" : "failed"} decorative />
    <strong>${trial.ok ? "It answered" : "It did not answer"}</strong>
  </p>
  ${trial.ok && html`<blockquote dir="auto"><${VisibleText} text=${trial.answer} isBlock /></blockquote>`}
  ${!trial.ok && html`<p class="problem" dir="auto">${trial.error}</p>`}
  ${
    trial.ok &&
    html`<p class="hint num">
      ${trial.seconds.toFixed(1)} s · ${trial.input_tokens.toLocaleString()} tokens in ·
      ${" "}${trial.output_tokens.toLocaleString()} out · ${formatMoney(trial.cost_usd)}
    </p>`
  }
</div>`;

function TryDialog({ dialog, tier }) {
  const [trial, setTrial] = useState(null);
  const [isAsking, setIsAsking] = useState(false);
  const send = async (event) => {
    event.preventDefault();
    const message = event.currentTarget.message.value.trim();
    setTrial(null);
    setIsAsking(true);
    const answer = await attempt(() => post(`/v1/tiers/${tier.tier}/try`, { message }));
    setIsAsking(false);
    if (answer) setTrial(answer.trial);
  };
  return html`<dialog ref=${dialog} aria-label="Try ${tier.model}">
    <h2>Try ${tier.model}</h2>
    <p>One real call, without tools. The pool of this tenant pays for it.</p>
    <form class="fields" onSubmit=${send}>
      <label class="field">Message
        <textarea name="message" maxlength="2000" required dir="auto" defaultValue=${QUESTION}></textarea>
      </label>
      ${isAsking && html`<p class="hint" role="status">It is being asked…</p>`}
      ${trial && html`<${Answer} trial=${trial} />`}
      <div class="actions">
        <button class="btn" type="button" onClick=${() => dialog.current.close()}>Close</button>
        <button class="btn primary" disabled=${isAsking}>Ask it</button>
      </div>
    </form>
  </dialog>`;
}

function Tier({ tier }) {
  const dialog = useRef();
  const { error, priced } = tier;
  return html`<li>
    <${StatusIcon} status=${error ? "failed" : "done"} decorative />
    <div class="grow">
      <div class="name-line">
        <strong>${tier.tier}</strong><span class="truncate" dir="auto">${tier.model}</span>
        <span class="muted small">${PURPOSES[tier.tier]}</span>
      </div>
      <div class="sub num" dir="auto">${describeTier(tier)}</div>
      ${error && html`<div class="sub error" dir="auto">${error}</div>`}
      ${
        !error &&
        !priced &&
        html`<div class="sub status-late">
          No known price: calls are counted as $0, so no limit stops them. Add it to prices.toml.
        </div>`
      }
    </div>
    <div class="actions">
      <button class="btn small" aria-label="Try it: ${tier.tier}" onClick=${() => dialog.current.showModal()}>
        <${Icon} name="play" />Try it
      </button>
    </div>
    <${TryDialog} dialog=${dialog} tier=${tier} />
  </li>`;
}

export const Models = () => html`<${Card} title="Models">
  <${Known} value=${tiers.value}>${(list) =>
    html`<ul class="rows">${list.map((tier) => html`<${Tier} key=${tier.tier} tier=${tier} />`)}</ul>`}<//>
<//>`;
