import { formatCount } from "../../base/format.js";
import { groupBy } from "../../base/group-by.js";
import type { Scored } from "../api.js";
import { Probabilities } from "./attacked-texts.js";
import { DiffText } from "./diff-text.js";
import { formatTestCase } from "./test-case.js";
import type { WatchedSearch } from "./use-attacks.js";
import { CopyButton, Problem } from "./widgets.js";

interface SearchViewProps {
  readonly watched: WatchedSearch;
  readonly labels: readonly string[];
  readonly texts: readonly string[];
  readonly reference: string;
  onTexts(texts: readonly string[]): void;
}

const outcomes = {
  success: ["fooled", "The attack fooled the model."],
  failed: ["robust", "The model resisted."],
  skipped: ["skipped", "The model misclassifies this text without any change."],
} as const;

/** Shows an attack at work, and its result. */
export function AttackView({ watched, labels, texts, reference, onTexts }: SearchViewProps) {
  const { step, end, problem, pieces } = watched;
  const queries = end?.result.queries ?? step?.queries ?? 0;
  const result = end?.result;
  return (
    <div class={`attack ${result?.outcome ?? "working"}`}>
      <h3>
        {watched.attack}{" "}
        <span class="counter">
          <b>{formatCount(queries)}</b> queries
        </span>
      </h3>
      <p role="status">
        {result ? (
          <>
            <span class={`badge ${result.outcome}`}>{outcomes[result.outcome][0]}</span> {outcomes[result.outcome][1]}
          </>
        ) : watched.isRunning ? (
          "The attack is looking for words to change …"
        ) : (
          problem === null && "Stopped."
        )}
      </p>
      <Problem message={problem} />
      {result ? (
        <>
          <DiffText fields={result.fields} />
          <Probabilities labels={labels} before={result.before} after={result.after} gold={result.label} />
          <p class="actions">
            <CopyButton
              label="Copy as a test case"
              text={formatTestCase({
                reference,
                texts,
                attacked: end.texts,
                label: labels[result.label] ?? String(result.label),
              })}
            />
            {result.edits.length > 0 && (
              <button type="button" class="quiet" onClick={() => onTexts(end.texts)}>
                Continue with this text
              </button>
            )}
          </p>
        </>
      ) : (
        step && (
          <>
            <WorkingText pieces={pieces} step={step} />
            <Probabilities labels={labels} before={step.probabilities} />
          </>
        )
      )}
    </div>
  );
}

/** The best text so far. The words that the attack tries at the moment are marked. */
function WorkingText({ pieces, step }: { pieces: Scored["pieces"]; step: NonNullable<WatchedSearch["step"]> }) {
  const edits = groupBy(step.edits, ({ position }) => position);
  return (
    <div class="diff">
      {pieces.map((field, i) => (
        <p key={i}>
          {field.map(({ text, word }, k) => {
            const own = (word === null ? null : edits.get(word)) ?? [];
            const replaced = own.find(({ from }) => from !== "");
            return (
              <span key={k} class={word !== null && step.tried.includes(word) ? "tried" : ""}>
                {own.map(({ from, to }) => from === "" && <ins>{to} </ins>)}
                {replaced ? <del>{text}</del> : text}
                {replaced && <ins> {replaced.to}</ins>}
              </span>
            );
          })}
        </p>
      ))}
    </div>
  );
}
