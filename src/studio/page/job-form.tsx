import { useState } from "preact/hooks";
import type { DataColumns, FormCheck, FormField, JobRow } from "../api.js";
import { getMessage, load } from "./api.js";
import { Field, type FieldValues } from "./form-field.js";
import { Command, Loading, Problem, useDelayed, useLoaded } from "./widgets.js";

/** A form made from the schema of a request. The server checks it while it is filled in. */
export function JobForm({ kind, onStarted }: { kind: JobRow["kind"]; onStarted(): void }) {
  const { data: fields, problem: loadProblem } = useLoaded<readonly FormField[]>({ path: "form", body: { kind } });
  const [values, setValues] = useState<FieldValues>({});
  const [isSubmitted, setSubmitted] = useState(false);
  const [problem, setProblem] = useState<string | null>(null);
  // The server checks the values shortly after each change.
  const checked = useDelayed(JSON.stringify(values), 250);
  const body = { kind, values: JSON.parse(checked) as FieldValues };
  const { last: check, problem: checkProblem } = useLoaded<FormCheck>({ path: "form/check", body });
  const path = useDelayed(String(values.data ?? ""), 250);
  const { last: data } = useLoaded<DataColumns>({ path: "data", body: { path } });
  if (!fields) return loadProblem === null ? <Loading what="the form" /> : <Problem message={loadProblem} />;
  const submit = async (isConfirmed: boolean): Promise<void> => {
    setSubmitted(true);
    setProblem(null);
    try {
      const started = { path: "jobs", body: { kind, values, isConfirmed } };
      const answer = await load<FormCheck & { id: string | null }>(started);
      if (answer.id !== null) onStarted();
    } catch (error) {
      setProblem(getMessage(error));
    }
  };
  const columns = (data?.columns ?? []).map((value) => ({ value, hint: "" }));
  const renderField = (field: FormField) => (
    <Field
      key={field.key}
      field={/Column$/.test(field.key) ? { ...field, options: columns } : field}
      value={values[field.key]}
      problem={isSubmitted || field.key in values ? (check?.problems[field.key] ?? null) : null}
      onChange={(value) => setValues({ ...values, [field.key]: value })}
    />
  );
  const others = fields.filter(({ isMain }) => !isMain);
  const numProblems = Object.keys(check?.problems ?? {}).length;
  const hidden = isSubmitted ? others.filter(({ key }) => check && key in check.problems) : [];
  return (
    <form
      class="job-form"
      noValidate
      onSubmit={(event) => {
        event.preventDefault();
        void submit(false);
      }}
    >
      <div class="fields">{fields.filter(({ isMain }) => isMain).map(renderField)}</div>
      <Problem message={data?.problem ?? null} />
      <details open={hidden.length > 0}>
        <summary>All settings ({others.length} more)</summary>
        <div class="fields">{others.map(renderField)}</div>
      </details>
      <Problem message={problem ?? checkProblem} />
      <p class="actions">
        <button type="submit">{submitTitles[kind]}</button>
        {isSubmitted && numProblems > 0 && (
          <span class="field-problem" role="alert">
            {numProblems === 1 ? "One field needs" : `${numProblems} fields need`} another value.
          </span>
        )}
      </p>
      {isSubmitted && check?.question && (
        <p class="warning" role="alert">
          {check.question}{" "}
          <button type="button" class="quiet" onClick={() => void submit(true)}>
            Start all the same
          </button>
        </p>
      )}
      {check?.command && (
        <>
          <h2>The same on the command line and in TypeScript</h2>
          <Command text={check.command} />
          <Command text={check.code ?? ""} />
        </>
      )}
    </form>
  );
}

const submitTitles = { harden: "Start hardening", train: "Start training", attack: "Start the attack" } as const;
