import { useEffect, useState } from "preact/hooks";
import type { PlaygroundExample, PlaygroundModel } from "../api.js";
import { getMessage, post } from "./api.js";
import { Field, type FieldValues, fillRequired } from "./form-field.js";
import type { LiveState } from "./live.js";
import { ModelPanel } from "./model-panel.js";
import { ModelPicker } from "./model-picker.js";
import { EmptyState, Loading, Problem } from "./widgets.js";

/** Loads a model when it is chosen. */
function useModel(reference: string): { model: PlaygroundModel | null; problem: string | null } {
  const [state, setState] = useState<{ model: PlaygroundModel | null; problem: string | null }>({
    model: null,
    problem: null,
  });
  useEffect(() => {
    setState({ model: null, problem: null });
    if (reference === "") return;
    let isCurrent = true;
    post<PlaygroundModel>("playground/open", { model: reference }).then(
      (model) => isCurrent && setState({ model, problem: null }),
      (error: unknown) => isCurrent && setState({ model: null, problem: getMessage(error) }),
    );
    return () => {
      isCurrent = false;
    };
  }, [reference]);
  return state;
}

/** Try texts and attacks on one or two models. */
export function PlaygroundPage({ live, first }: { live: LiveState; first: string }) {
  const runs = [...live.rows.values()].filter(({ hasModel, state }) => hasModel && state === "finished");
  const models = [...runs, ...live.exports];
  const [references, setReferences] = useState<readonly [string, string]>([first, ""]);
  const [texts, setTexts] = useState<readonly string[]>([""]);
  const [label, setLabel] = useState<number | null>(null);
  const [attack, setAttack] = useState("pwws");
  const [options, setOptions] = useState<Readonly<Record<string, FieldValues>>>({});
  const [started, setStarted] = useState(0);
  const [running, setRunning] = useState<ReadonlySet<string>>(new Set());
  const chosen = references[0] || models[0]?.id || "";
  const one = useModel(chosen);
  const two = useModel(references[1]);
  const fields = one.model?.fields ?? ["text"];
  const choice = one.model?.attacks.find(({ value }) => value === attack);
  const labels = (one.model?.labels ?? []).map((value) => ({ value, hint: "" }));
  const optionFields = (choice?.fields ?? []).map((field) =>
    /^(target|benignLabel)$/.test(field.key) ? { ...field, options: labels } : field,
  );
  const optionValues = fillRequired(optionFields, options[attack] ?? {});
  const shownTexts = fields.map((_, i) => texts[i] ?? "");
  const changeTexts = (next: readonly string[]): void => {
    setTexts(next);
    setStarted(0);
  };
  const report = (key: string, isRunning: boolean): void =>
    setRunning((before) => {
      const next = new Set(before);
      if (isRunning) next.add(key);
      else next.delete(key);
      return next;
    });
  if (models.length === 0 && references[0] === "" && live.isReady)
    return (
      <EmptyState title="No model to play with yet">
        <p>
          Finish a run, export a model into a folder of the studio, or enter the address of an endpoint, such as one of
          temper serve:
        </p>
        <ModelPicker title="Model" models={models} value="" onChange={(value) => setReferences([value, ""])} />
      </EmptyState>
    );
  return (
    <article class="playground">
      <h1>Playground</h1>
      <div class="pickers">
        <ModelPicker
          title="Model"
          models={models}
          value={chosen}
          onChange={(value) => setReferences([value, references[1]])}
        />
        <ModelPicker
          title="Second model"
          models={models}
          value={references[1]}
          isOptional
          onChange={(value) => setReferences([references[0], value])}
        />
      </div>
      <Problem message={one.problem} />
      <Problem message={two.problem} />
      <Examples
        model={one.model}
        onPick={(example) => {
          changeTexts(example.texts);
          setLabel(example.label);
        }}
      />
      {fields.map((field, i) => (
        <label class="input" key={field}>
          {fields.length > 1 ? field : "Text"}
          <textarea
            rows={4}
            value={shownTexts[i]}
            placeholder="Type or paste a text"
            onInput={(event) => changeTexts(shownTexts.with(i, event.currentTarget.value))}
          />
        </label>
      ))}
      <form
        class="filters"
        onSubmit={(event) => {
          event.preventDefault();
          setStarted(running.size > 0 ? -started : Math.abs(started) + 1);
        }}
      >
        <label>
          Correct label{" "}
          <select
            value={label === null ? "" : String(label)}
            onChange={(event) => setLabel(event.currentTarget.value === "" ? null : Number(event.currentTarget.value))}
          >
            <option value="">the model's prediction</option>
            {one.model?.labels.map((name, i) => (
              <option key={name} value={String(i)}>
                {name}
              </option>
            ))}
          </select>
        </label>
        <label>
          Attack{" "}
          <select value={attack} onChange={(event) => setAttack(event.currentTarget.value)}>
            {(one.model?.attacks ?? [{ value: "pwws", hint: "" }]).map(({ value, hint }) => (
              <option key={value} title={hint}>
                {value}
              </option>
            ))}
          </select>
        </label>
        <button
          type="submit"
          class={running.size > 0 ? "danger" : ""}
          disabled={!one.model || shownTexts.join("").trim() === ""}
        >
          {running.size > 0 ? "Stop" : "Start attack"}
        </button>
        <small class="hint">{choice?.hint}</small>
        {optionFields.length > 0 && (
          <details class="attack-options" open={optionFields.some(({ required }) => required)}>
            <summary>
              Options of {attack} ({optionFields.length})
            </summary>
            <div class="fields">
              {optionFields.map((field) => (
                <Field
                  key={`${attack} ${field.key}`}
                  field={field}
                  value={optionValues[field.key]}
                  problem={null}
                  onChange={(value) => setOptions({ ...options, [attack]: { ...options[attack], [field.key]: value } })}
                />
              ))}
            </div>
          </details>
        )}
      </form>
      {chosen !== "" && !one.model && one.problem === null && <Loading what="the model" />}
      <div class="panels">
        {[one, two].map(
          ({ model }, i) =>
            model && (
              <ModelPanel
                key={`${i} ${model.reference}`}
                title={runs.find(({ id }) => id === model.reference)?.name ?? model.reference}
                folder={live.rows.get(model.reference)?.folder ?? model.reference}
                model={model}
                texts={shownTexts}
                label={label}
                attack={attack}
                options={optionValues}
                started={started}
                onTexts={changeTexts}
                onRunning={(isRunning) => report(String(i), isRunning)}
              />
            ),
        )}
      </div>
    </article>
  );
}

/** Texts of the model's task to start from. */
function Examples({ model, onPick }: { model: PlaygroundModel | null; onPick(example: PlaygroundExample): void }) {
  const [examples, setExamples] = useState<readonly PlaygroundExample[]>([]);
  useEffect(() => {
    let isCurrent = true;
    setExamples([]);
    if (model)
      post<PlaygroundExample[]>("playground/examples", { model: model.reference }).then(
        (found) => isCurrent && setExamples(found),
        () => undefined,
      );
    return () => {
      isCurrent = false;
    };
  }, [model]);
  return (
    <label class="input">
      Example from the test set
      <select
        value=""
        disabled={examples.length === 0}
        onChange={(event) => onPick(examples[Number(event.currentTarget.value)]!)}
      >
        <option value="">{examples.length === 0 ? "none available" : "Pick a text …"}</option>
        {examples.map(({ texts, label }, i) => (
          <option key={i} value={String(i)}>
            {model!.labels[label]}: {texts.join(" / ").slice(0, 100)}
          </option>
        ))}
      </select>
    </label>
  );
}
