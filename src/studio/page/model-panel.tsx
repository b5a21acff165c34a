import { useEffect, useState } from "preact/hooks";
import { formatPercent } from "../../base/format.js";
import type { AttackMessage, PlaygroundModel, Scored } from "../api.js";
import { getMessage, post, readEvents } from "./api.js";
import { AttackView, type WatchedAttack } from "./attack-view.js";
import { Probabilities } from "./attacked-texts.js";
import type { FieldValues } from "./form-field.js";
import { Problem, useDelayed } from "./widgets.js";
import { Words } from "./words.js";

interface Props {
  readonly title: string;
  /** What code needs to load the model. */
  readonly folder: string;
  readonly model: PlaygroundModel;
  readonly texts: readonly string[];
  readonly label: number | null;
  readonly attack: string;
  readonly options: FieldValues;
  /** Counts the attacks that were started; 0: none; negative: the last one was stopped. */
  readonly started: number;
  onTexts(texts: readonly string[]): void;
  onRunning(isRunning: boolean): void;
}

/** What one model says about the text, and an attack on it. */
export function ModelPanel({ title, folder, model, texts, label, started, onTexts, onRunning, ...attack }: Props) {
  const { scored, problem } = useScored(model.reference, texts);
  const watched = useAttack(model.reference, { texts, label, ...attack }, started, onRunning);
  return (
    <section class="panel" aria-label={title}>
      <h2>{title}</h2>
      <Problem message={problem} />
      <div aria-live="polite">
        {scored && <Prediction labels={model.labels} probabilities={scored.probabilities} label={label} />}
      </div>
      {scored && <Words scored={scored} onTexts={onTexts} />}
      {watched && (
        <AttackView watched={watched} labels={model.labels} texts={texts} reference={folder} onTexts={onTexts} />
      )}
    </section>
  );
}

/** The predicted label first, and whether it is the correct one if that is known. */
function Prediction({ labels, probabilities, label }: PredictionProps) {
  const predicted = probabilities.indexOf(Math.max(...probabilities));
  const verdict = label === null ? null : label === predicted ? "robust" : "success";
  return (
    <>
      <p class="prediction">
        <b>{labels[predicted] ?? `class ${predicted}`}</b> {formatPercent(probabilities[predicted]!)}{" "}
        {verdict && <span class={`badge ${verdict}`}>{verdict === "robust" ? "correct" : "wrong"}</span>}
      </p>
      <Probabilities labels={labels} before={probabilities} gold={predicted} />
    </>
  );
}

interface PredictionProps {
  readonly labels: readonly string[];
  readonly probabilities: readonly number[];
  readonly label: number | null;
}

/** Probabilities follow while people type. The words follow when they pause. */
function useScored(model: string, texts: readonly string[]): { scored: Scored | null; problem: string | null } {
  const [scored, setScored] = useState<Scored | null>(null);
  const [problem, setProblem] = useState<string | null>(null);
  const content = JSON.stringify(texts);
  const soon = useDelayed(content, 80);
  const later = useDelayed(content, 450);
  const load = (wanted: string, withWords: boolean): (() => void) | undefined => {
    if (texts.join("").trim() === "") {
      setScored(null);
      return;
    }
    const stop = new AbortController();
    post<Scored>("playground/score", { model, texts: JSON.parse(wanted) as string[], withWords }, stop.signal).then(
      (found) => {
        setProblem(null);
        setScored((before) => (withWords || !before ? found : { ...before, probabilities: found.probabilities }));
      },
      (error: unknown) => stop.signal.aborted || setProblem(getMessage(error)),
    );
    return () => stop.abort();
  };
  useEffect(() => load(soon, false), [model, soon]);
  useEffect(() => load(later, true), [model, later]);
  return { scored, problem };
}

interface AttackRequest {
  readonly texts: readonly string[];
  readonly label: number | null;
  readonly attack: string;
  readonly options: FieldValues;
}

/** Runs an attack whenever one is started, until it ends or is stopped. */
function useAttack(
  model: string,
  request: AttackRequest,
  started: number,
  onRunning: (isRunning: boolean) => void,
): WatchedAttack | null {
  const [watched, setWatched] = useState<WatchedAttack | null>(null);
  useEffect(() => {
    if (started <= 0) {
      const stop = (before: WatchedAttack): WatchedAttack => (before.end ? before : { ...before, isStopped: true });
      setWatched((before) => (started === 0 || !before ? null : stop(before)));
      return;
    }
    const stop = new AbortController();
    let state: WatchedAttack = { attack: request.attack, pieces: [], step: null, end: null, problem: null };
    const update = (change: Partial<WatchedAttack>): void => {
      state = { ...state, ...change };
      setWatched(state);
    };
    const watch = async (): Promise<void> => {
      onRunning(true);
      // Shown before the first answer, and after a stop that comes before it.
      update({});
      try {
        for await (const message of readEvents<AttackMessage>("playground/attack", stop.signal, {
          model,
          ...request,
        })) {
          if (message.type === "start") update({ pieces: message.pieces });
          else if (message.type === "step") update({ step: message });
          else if (message.type === "end") update({ end: message });
          else update({ problem: message.message });
        }
      } catch (error) {
        if (!stop.signal.aborted) update({ problem: getMessage(error) });
      } finally {
        onRunning(false);
      }
    };
    void watch();
    return () => stop.abort();
  }, [started, model]);
  return watched;
}
