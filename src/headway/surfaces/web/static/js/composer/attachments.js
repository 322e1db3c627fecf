// Files in messages: those that the next message will carry, and those that a message has.
import { html, useRef } from "../core/lib.js";
import { Icon } from "../core/ui.js";

const IMAGES = new Set(["image/png", "image/jpeg", "image/gif", "image/webp"]);

const toBase64 = (file) =>
  new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(reader.result.slice(reader.result.indexOf(",") + 1));
    reader.onerror = () => reject(reader.error);
    reader.readAsDataURL(file);
  });

/** The files as the server expects them. A pasted image may have no name. */
export const encodeFiles = (files) =>
  Promise.all(
    files.map(async (file) => ({ name: file.name || "pasted image", media_type: file.type, data: await toBase64(file) })),
  );

export function AttachButton({ onFiles }) {
  const input = useRef();
  const onChange = () => {
    onFiles([...input.current.files]);
    input.current.value = ""; // so that the same file can be chosen again
  };
  return html`<button
      type="button"
      class="btn ghost icon-only"
      aria-label="Attach files"
      title="Attach images, PDFs or text files"
      onClick=${() => input.current.click()}
    ><${Icon} name="clip" /></button>
    <input ref=${input} type="file" multiple hidden aria-label="Files" onChange=${onChange} />`;
}

/** The files that wait to be sent. */
export const AttachedFiles = ({ files, onRemove }) => html`<ul class="attachments" aria-label="Attached files">
  ${files.map(
    (file) => html`<li key=${file} class="file">
      <${Icon} name="clip" /><span class="truncate" dir="auto">${file.name || "pasted image"}</span>
      <button type="button" class="btn ghost icon-only tiny" aria-label="Remove ${file.name}" onClick=${() => onRemove(file)}>
        <${Icon} name="close" />
      </button>
    </li>`,
  )}
</ul>`;

/** The files of a sent message: images as thumbnails, others by name. Each can be downloaded. */
export const MessageFiles = ({ turnId, attachments }) => html`<ul class="attachments" aria-label="Attachments">
  ${attachments.map((file, index) => {
    const address = `/v1/turns/${turnId}/attachments/${index + 1}`;
    return html`<li key=${index}>
      <a class=${IMAGES.has(file.media_type) ? "thumbnail" : "file"} href=${address} download=${file.name} title=${file.name}>
        ${
          IMAGES.has(file.media_type)
            ? html`<img src=${address} alt=${file.name} loading="lazy" />`
            : html`<${Icon} name="clip" /><span class="truncate" dir="auto">${file.name}</span>`
        }
      </a>
    </li>`;
  })}
</ul>`;
