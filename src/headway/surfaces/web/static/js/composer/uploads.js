// Which files a message may have, and how they are sent.
import { pluralize } from "../core/ui.js";

// The server's limits (ledger/attachment.py), checked here so that no upload is refused at its end.
export const FILES_LIMIT = 10;
const SIZE_LIMIT = 10_000_000;
const TOTAL_LIMIT = 20_000_000;
export const LIMITS = "Images, PDFs and text files: at most 10, each up to 10 MB, 20 MB together";

export const getFileName = (file) => file.name || "pasted image"; // a pasted image may have no name

export function formatSize(bytes) {
  if (bytes < 1_000) return pluralize(bytes, "byte");
  return bytes < 1_000_000 ? `${Math.round(bytes / 1_000)} KB` : `${(bytes / 1_000_000).toFixed(1)} MB`;
}

/** Add files within the limits. Returns all files, and why some were not added. */
export function addWithinLimits(files, added) {
  const all = [...files];
  const problems = new Set();
  for (const file of added) {
    const total = all.reduce((sum, { size }) => sum + size, file.size);
    if (all.length >= FILES_LIMIT) problems.add(`A message can have at most ${FILES_LIMIT} files; the others were not added.`);
    else if (file.size > SIZE_LIMIT) {
      problems.add(`${getFileName(file)} has ${formatSize(file.size)}; a file can have at most 10 MB. It was not added.`);
    } else if (total > TOTAL_LIMIT) {
      problems.add(`With ${getFileName(file)} the files have ${formatSize(total)}; at most 20 MB are possible. It was not added.`);
    } else all.push(file);
  }
  return { files: all, problem: [...problems].join(" ") };
}

const toBase64 = (file) =>
  new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(reader.result.slice(reader.result.indexOf(",") + 1));
    reader.onerror = () => reject(reader.error);
    reader.readAsDataURL(file);
  });

/** The files as the server expects them. */
export const encodeFiles = (files) =>
  Promise.all(files.map(async (file) => ({ name: getFileName(file), media_type: file.type, data: await toBase64(file) })));

/** Sends a request like `fetch`, and reports which share of it has been sent. */
export const createSender = (onProgress) => (path, options) =>
  new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open(options.method, path);
    for (const [name, value] of Object.entries(options.headers)) request.setRequestHeader(name, value);
    request.upload.onprogress = ({ loaded, total }) => onProgress(loaded / total);
    request.onload = () => resolve(new Response(request.responseText || null, { status: request.status }));
    request.onerror = reject;
    request.send(options.body);
  });
