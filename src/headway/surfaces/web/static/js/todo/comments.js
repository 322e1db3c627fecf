// The comments of people on a todo, oldest first.
import { patch, post, remove } from "../core/api.js";
import { ask, attempt } from "../core/dialogs.js";
import { useFocusBack } from "../core/focus.js";
import { html, useRef, useState } from "../core/lib.js";
import { Ago, Icon } from "../core/ui.js";
import { Editor } from "./fields.js";
import { comments, loadComments, loadMoreComments } from "./state.js";

const COMMENT_LENGTH = 10_000;

function Comment({ comment }) {
  const path = `/v1/todos/${comment.todo_id}/comments/${comment.id}`;
  const [before, setBefore] = useState(null); // the text when editing began; null: not editing
  const button = useFocusBack(before !== null);
  const save = async (text) => {
    await patch(path, { text });
    await loadComments();
  };
  const askToRemove = () =>
    ask({
      title: "Delete this comment?",
      text: comment.text.slice(0, 300),
      confirm: "Delete",
      run: async () => {
        await remove(path);
        await loadComments();
      },
    });
  return html`<li>
    <p class="comment-head">
      <strong dir="auto">${comment.person}</strong> <${Ago} at=${comment.created_at} />
      ${
        comment.edited_at > 0 &&
        html`<span class="faint" title=${new Date(comment.edited_at * 1000).toLocaleString()}>edited</span>`
      }
      <span class="grow"></span>
      ${
        comment.editable &&
        before === null &&
        html`<button
          ref=${button}
          class="btn ghost icon-only tiny"
          aria-label="Edit the comment of ${comment.person}"
          title="Edit"
          onClick=${() => setBefore(comment.text)}
        ><${Icon} name="edit" /></button>`
      }
      ${
        comment.deletable &&
        html`<button
          class="btn ghost icon-only tiny"
          aria-label="Delete the comment of ${comment.person}"
          title="Delete"
          onClick=${askToRemove}
        ><${Icon} name="trash" /></button>`
      }
    </p>
    ${
      before === null
        ? html`<p class="long-text" dir="auto">${comment.text}</p>`
        : html`<${Editor}
            label="Text of the comment"
            value=${before}
            latest=${comment.text}
            isRequired
            limit=${COMMENT_LENGTH}
            onSave=${save}
            onClose=${() => setBefore(null)}
          />`
    }
  </li>`;
}

function CommentForm({ id }) {
  const field = useRef();
  const submit = (event) => {
    event?.preventDefault();
    const text = field.current.value.trim();
    if (!text) return field.current.focus();
    attempt(async () => {
      await post(`/v1/todos/${id}/comments`, { text });
      if (field.current) field.current.value = "";
      await loadComments();
    });
  };
  const onKeyDown = (event) => {
    if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey) || event.isComposing) return;
    event.preventDefault();
    submit();
  };
  return html`<form class="edit-field" onSubmit=${submit}>
    <textarea
      ref=${field}
      aria-label="Comment"
      placeholder="Comment"
      rows="2"
      dir="auto"
      maxlength=${COMMENT_LENGTH}
      onKeyDown=${onKeyDown}
    />
    <div class="actions"><button class="btn small">Add the comment</button></div>
  </form>`;
}

export function Comments({ id }) {
  const known = comments.value?.id === id ? comments.value : null;
  return html`<section aria-label="Comments">
    <h3>Comments</h3>
    ${!known && html`<i class="skeleton"></i>`}
    ${
      known?.list.length > 0 &&
      html`<ol class="comments">${known.list.map((one) => html`<${Comment} key=${one.id} comment=${one} />`)}</ol>`
    }
    ${known?.next && html`<button class="btn ghost small" onClick=${() => attempt(loadMoreComments)}>Show more comments</button>`}
    <${CommentForm} key=${id} id=${id} />
  </section>`;
}
