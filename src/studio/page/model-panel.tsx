import { formatPercent } from "../../base/format.js";
import type { PlaygroundModel, Scored } from "../api.js";
import { AttackView } from "./attack-view.js";
import { Probabilities } from "./probabilities.js";
import type { WatchedSearch } from "./use-attacks.js";
import { Problem, useDelayed, useLoaded } from "./widgets.js";
import { Words } from "./words.js";

interface ModelPanelProps {
  readonly title: string;
  readonly model: PlaygroundModel;
  readonly texts: readonly string[];
  /** The correct label; empty if it is not known. */
  readonly label: string;
  readonly watched: WatchedSearch | null;
  onTexts(texts: readonly string[]): void;
}

/** One model's answer for the text, and an attack on it. */
export function ModelPanel({ title, model, texts, label, watched, onTexts }: ModelPanelProps) {
  const content = JSON.stringify(texts);
  // Probabilities follow while people type. The words follow when they pause.
  const [soon, later] = [useDelayed(content, 80), useDelayed(content, 450)];
  const [quick, full] = [useScored(model, soon, false), useScored(model, later, true)];
  const scored = texts.join("").trim() === "" ? null : (quick.last ?? full.last);
  return (
    <section class="panel" aria-label={title}>
      <h2>{title}</h2>
      <Problem message={quick.problem ?? full.problem} />
      <div aria-live="polite">
        {scored && <Prediction labels={model.labels} probabilities={scored.probabilities} label={label} />}
      </div>
      {scored && <Words scored={full.last ?? scored} onTexts={onTexts} />}
      {watched && (
        <AttackView watched={watched} labels={model.labels} pieces={scored?.pieces ?? []} onTexts={onTexts} />
      )}
    </section>
  );
}

function useScored({ reference }: PlaygroundModel, content: string, withWords: boolean) {
  const texts = JSON.parse(content) as string[];
  const body = { model: reference, texts, withWords };
  return useLoaded<Scored>(texts.join("").trim() === "" ? null : { path: "playground/score", body });
}

interface PredictionProps {
  readonly labels: readonly string[];
  readonly probabilities: readonly number[];
  readonly label: string;
}

/** The predicted label first, and whether it is the correct one if that is known. */
function Prediction({ labels, probabilities, label }: PredictionProps) {
  const predicted = probabilities.indexOf(Math.max(...probabilities));
  const name = labels[predicted] ?? `class ${predicted}`;
  return (
    <>
      <p class="prediction">
        <b>{name}</b> {formatPercent(probabilities[predicted]!)}{" "}
        {labels.includes(label) && (
          <span class={`badge ${label === name ? "failed" : "success"}`}>{label === name ? "correct" : "wrong"}</span>
        )}
      </p>
      <Probabilities labels={labels} values={probabilities} gold={predicted} />
    </>
  );
}
