import { useState } from "preact/hooks";
import type { PlaygroundExample, PlaygroundModel } from "../api.js";
import { Field, type FieldValues } from "./form-field.js";
import type { LiveState } from "./live.js";
import { ModelPanel } from "./model-panel.js";
import { type Searches, useAttacks } from "./use-attacks.js";
import { EmptyState, Loading, Problem, Select, useLoaded } from "./widgets.js";

const useModel = (reference: string) =>
  useLoaded<PlaygroundModel>(reference === "" ? null : { path: "playground/open", body: { model: reference } });

/** Try texts and attacks on one or two models. */
export function PlaygroundPage({ live, first }: { live: LiveState; first: string }) {
  const runs = [...live.rows.values()].filter(({ hasModel, state }) => hasModel && state === "finished");
  const models = [...runs, ...live.exports];
  const [references, setReferences] = useState<readonly [string, string]>([first, ""]);
  const [typed, setTyped] = useState<PlaygroundExample>({ texts: [""], label: "" });
  const attacks = useAttacks();
  const chosen = references[0] || models[0]?.id || "";
  const [one, two] = [useModel(chosen), useModel(references[1])];
  const fields = one.data?.fields ?? ["text"];
  const texts = fields.map((_, i) => typed.texts[i] ?? "");
  const change = (next: Partial<PlaygroundExample>): void => {
    setTyped({ ...typed, ...next });
    attacks.clear();
  };
  const choose = (next: readonly [string, string]): void => {
    setReferences(next);
    attacks.stop();
  };
  if (models.length === 0 && chosen === "" && live.isReady)
    return (
      <EmptyState title="No model to play with yet">
        <p>Finish a run, or export a model into a folder of the studio.</p>
      </EmptyState>
    );
  const choices = models.map(({ id, name }) => ({ value: id, title: name }));
  const opened = [one.data, two.data].filter((model) => model !== null);
  return (
    <article class="playground">
      <h1>Playground</h1>
      <div class="pickers">
        <Select title="Model" value={chosen} options={choices} onChange={(value) => choose([value, references[1]])} />
        <Select
          title="Second model"
          none="none"
          value={references[1]}
          options={choices}
          onChange={(value) => choose([references[0], value])}
        />
      </div>
      <Problem message={one.problem} />
      <Problem message={two.problem} />
      <Examples reference={chosen} onPick={change} />
      {fields.map((field, i) => (
        <label key={field}>
          {fields.length > 1 ? field : "Text"}
          <textarea
            rows={4}
            value={texts[i]}
            placeholder="Type or paste a text"
            onInput={(event) => change({ texts: texts.with(i, event.currentTarget.value) })}
          />
        </label>
      ))}
      {one.data && (
        <AttackForm
          model={one.data}
          models={opened}
          texts={texts}
          label={typed.label}
          attacks={attacks}
          onLabel={(label) => change({ label })}
        />
      )}
      {chosen !== "" && !one.data && one.problem === null && <Loading what="the model" />}
      <div class="panels">
        {opened.map((model, i) => (
          <ModelPanel
            key={`${i} ${model.reference}`}
            title={models.find(({ id }) => id === model.reference)?.name ?? model.reference}
            model={model}
            texts={texts}
            label={typed.label}
            watched={attacks.watched.get(model.reference) ?? null}
            onTexts={(next) => change({ texts: next })}
          />
        ))}
      </div>
    </article>
  );
}

interface SearchFormProps {
  readonly model: PlaygroundModel;
  readonly models: readonly PlaygroundModel[];
  readonly texts: readonly string[];
  readonly label: string;
  readonly attacks: Searches;
  onLabel(label: string): void;
}

function AttackForm({ model, models, texts, label, attacks, onLabel }: SearchFormProps) {
  const [attack, setAttack] = useState("pwws");
  const [given, setGiven] = useState<Readonly<Record<string, FieldValues>>>({});
  const choice = model.attacks.find(({ value }) => value === attack);
  const labels = model.labels.map((value) => ({ value, hint: "" }));
  const fields = (choice?.fields ?? []).map((field) =>
    /^(target|benignLabel)$/.test(field.key) ? { ...field, options: labels } : field,
  );
  const options = given[attack] ?? {};
  const start = (): void =>
    attacks.start(
      models.map((each) => ({
        model: each.reference,
        texts,
        attack,
        options,
        label: each.labels.includes(label) ? each.labels.indexOf(label) : null,
      })),
    );
  return (
    <form
      class="filters"
      onSubmit={(event) => {
        event.preventDefault();
        if (attacks.isRunning) attacks.stop();
        else start();
      }}
    >
      <Select title="Correct label" none="the model's prediction" value={label} options={labels} onChange={onLabel} />
      <Select title="Attack" value={attack} options={model.attacks} onChange={setAttack} />
      <button type="submit" class={attacks.isRunning ? "danger" : ""} disabled={texts.join("").trim() === ""}>
        {attacks.isRunning ? "Stop" : "Start attack"}
      </button>
      <small class="hint">{choice?.hint}</small>
      {fields.length > 0 && (
        <details class="attack-options" open={fields.some(({ required }) => required)}>
          <summary>
            Options of {attack} ({fields.length})
          </summary>
          <div class="fields">
            {fields.map((field) => (
              <Field
                key={`${attack} ${field.key}`}
                field={field}
                value={options[field.key]}
                problem={null}
                onChange={(value) => setGiven({ ...given, [attack]: { ...given[attack], [field.key]: value } })}
              />
            ))}
          </div>
        </details>
      )}
    </form>
  );
}

function Examples({ reference, onPick }: { reference: string; onPick(example: PlaygroundExample): void }) {
  const request = reference === "" ? null : { path: "playground/examples", body: { model: reference } };
  const { data, problem } = useLoaded<readonly PlaygroundExample[]>(request);
  const isLoading = data === null && problem === null && reference !== "";
  const choices = (data ?? []).map(({ texts, label }, i) => {
    return { value: String(i), title: `${label}: ${texts.join(" / ").slice(0, 100)}` };
  });
  const none = isLoading ? "loading …" : choices.length > 0 ? "Pick a text …" : "none available";
  return (
    <Select
      title="Example from the test set"
      none={none}
      value=""
      options={choices}
      onChange={(index) => index !== "" && onPick(data![Number(index)]!)}
    />
  );
}
