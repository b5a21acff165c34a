import { formatCount } from "../../base/format.js";
import { groupBy } from "../../base/group-by.js";
import type { Scored } from "../api.js";
import { Probabilities } from "./probabilities.js";
import type { WatchedSearch } from "./use-attacks.js";
import { Problem, ReportPart } from "./widgets.js";

export function AttackView({
  watched,
  labels,
  pieces,
  onTexts,
}: {
  readonly watched: WatchedSearch;
  readonly labels: readonly string[];
  /** The text before the attack. */
  readonly pieces: Scored["pieces"];
  onTexts(texts: readonly string[]): void;
}) {
  const { attack, step, end, problem, isRunning } = watched;
  return (
    <div class="attack">
      <h3>
        {attack}{" "}
        <span class="counter">
          <b>{formatCount(end?.queries ?? step?.queries ?? 0)}</b> queries
        </span>
      </h3>
      <p role="status">
        {end || problem !== null ? "" : isRunning ? "The attack is looking for words to change …" : "Stopped."}
      </p>
      <Problem message={problem} />
      {end ? (
        <>
          <ReportPart html={end.html} />
          {end.outcome !== "skipped" && (
            <button type="button" class="quiet" onClick={() => onTexts(end.texts)}>
              Continue with this text
            </button>
          )}
        </>
      ) : (
        step && (
          <>
            <WorkingText pieces={pieces} step={step} />
            <Probabilities labels={labels} values={step.probabilities} />
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
