// Files in messages: those that the next message will carry, and those that a message has.
import { html, useEffect, useRef, useState } from "../core/lib.js";
import { Icon } from "../core/ui.js";
import { formatSize, getFileName, LIMITS } from "./uploads.js";

const IMAGES = new Set(["image/png", "image/jpeg", "image/gif", "image/webp"]);
const PREVIEW_PX = 40;

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
      title=${`Attach files. ${LIMITS}`}
      onClick=${() => input.current.click()}
    ><${Icon} name="clip" /></button>
    <input ref=${input} type="file" multiple hidden aria-label="Files" onChange=${onChange} />`;
}

/** A small picture of an image. It is drawn, because the page may not load images from memory. */
function Preview({ file }) {
  const canvas = useRef();
  const [isDrawn, setIsDrawn] = useState(false);
  useEffect(() => {
    const draw = async () => {
      const image = await createImageBitmap(file);
      if (!canvas.current) return;
      const scale = Math.min(PREVIEW_PX / image.width, PREVIEW_PX / image.height);
      canvas.current.width = Math.max(1, image.width * scale);
      canvas.current.height = Math.max(1, image.height * scale);
      canvas.current.getContext("2d").drawImage(image, 0, 0, canvas.current.width, canvas.current.height);
      setIsDrawn(true);
    };
    if (IMAGES.has(file.type)) draw().catch(() => {}); // no image after all: the server says so
  }, []);
  return html`<canvas ref=${canvas} class="preview" width="1" height="1" hidden=${!isDrawn} aria-hidden="true"></canvas>${
    !isDrawn && html`<${Icon} name="clip" />`
  }`;
}

/** The files that wait to be sent. `progress`: which share of them has been sent, or null. */
export const AttachedFiles = ({ files, onRemove, progress }) => html`<ul class="attachments" aria-label="Attached files">
    ${files.map(
      (file) => html`<li key=${file} class="file">
        <${Preview} file=${file} /><span class="truncate" dir="auto">${getFileName(file)}</span>
        <small class="muted num">${formatSize(file.size)}</small>
        <button
          type="button"
          class="btn ghost icon-only tiny"
          aria-label="Remove ${getFileName(file)}"
          disabled=${progress !== null}
          onClick=${() => onRemove(file)}
        ><${Icon} name="close" /></button>
      </li>`,
    )}
  </ul>
  ${progress !== null && html`<progress aria-label="Sending the files" value=${progress} max="1"></progress>`}`;

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
