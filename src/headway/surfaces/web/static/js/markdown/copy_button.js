// A button that copies text, and says so.
import { showToast } from "../core/dialogs.js";
import { html, useEffect, useState } from "../core/lib.js";
import { Icon } from "../core/ui.js";

const SHOWN_MS = 2_000;

/** Copy with a hidden field: without TLS, browsers have no other clipboard. */
function copyFromField(text) {
  const field = document.createElement("textarea");
  const focused = document.activeElement;
  field.value = text;
  field.readOnly = true;
  field.className = "sr-only";
  document.body.append(field);
  field.select();
  const isCopied = document.execCommand("copy");
  field.remove();
  focused?.focus();
  return isCopied;
}

async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return copyFromField(text); // no clipboard, or it may not be used
  }
}

export function CopyButton({ text, label, class: extra = "" }) {
  const [isCopied, setIsCopied] = useState(false);
  useEffect(() => {
    if (!isCopied) return;
    const timer = setTimeout(() => setIsCopied(false), SHOWN_MS);
    return () => clearTimeout(timer);
  }, [isCopied]);
  const onClick = async () => {
    if (await copy(text)) setIsCopied(true);
    else showToast("The browser does not allow copying here. Select the text instead.", "bad");
  };
  return html`<button type="button" class="btn ghost icon-only tiny ${extra}" aria-label=${label} title=${label} onClick=${onClick}>
      <${Icon} name=${isCopied ? "check" : "copy"} />
    </button><span class="sr-only" role="status">${isCopied && "Copied"}</span>`;
}
