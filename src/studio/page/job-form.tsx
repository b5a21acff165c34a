import { useEffect, useState } from "preact/hooks";
import type { DataPreview, Form, FormCheck, FormField, JobRow } from "../api.js";
import { getMessage, post } from "./api.js";
import { Field, type FieldValues, fillRequired } from "./form-field.js";
import { Command, Loading, Problem, ReportPart, useDelayed, useLoaded } from "./widgets.js";

/** A form made from the schema of a request. The server checks it while it is filled in. */
export function JobForm({ kind, onStarted }: { kind: JobRow["kind"]; onStarted(): void }) {
  const { data: form, problem: loadProblem } = useLoaded<Form>({ path: "form", query: { kind } });
  const [given, setValues] = useState<FieldValues>({});
  const values = fillRequired(form?.fields ?? [], given);
  const [check, setCheck] = useState<FormCheck | null>(null);
  const [isSubmitted, setSubmitted] = useState(false);
  const [problem, setProblem] = useState<string | null>(null);
  const [question, setQuestion] = useState<string | null>(null);
  useCheck(kind, values, setCheck, setProblem);
  const path = useDelayed(String(values.data ?? ""), 250);
  const { last: preview } = useLoaded<DataPreview>({ path: "data", query: { path } });
  if (!form) return loadProblem === null ? <Loading what="the form" /> : <Problem message={loadProblem} />;
  const change = (more: FieldValues): void => {
    setValues({ ...given, ...more });
    setQuestion(null);
  };
  const submit = async (isConfirmed: boolean): Promise<void> => {
    setSubmitted(true);
    setProblem(null);
    try {
      const answer = await post<FormCheck & { id: string | null }>("jobs", { kind, values, isConfirmed });
      setQuestion(answer.question);
      setCheck(answer);
      if (answer.id !== null) onStarted();
    } catch (error) {
      setProblem(getMessage(error));
    }
  };
  const { fields, presets } = form;
  const columns = (preview?.columns ?? []).map((value) => ({ value, hint: "" }));
  const renderField = (field: FormField) => (
    <Field
      key={field.key}
      field={/Column$/.test(field.key) ? { ...field, options: columns } : field}
      value={values[field.key]}
      problem={isSubmitted || field.key in values ? (check?.problems[field.key] ?? null) : null}
      onChange={(value) => change({ [field.key]: value })}
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
      {presets.length > 0 && <Presets presets={presets} onChoose={change} />}
      <div class="fields">{fields.filter(({ isMain }) => isMain).map(renderField)}</div>
      {preview && preview.columns.length > 0 && <ReportPart html={preview.table} />}
      <Problem message={preview?.problem ?? null} />
      <details open={hidden.length > 0}>
        <summary>All settings ({others.length} more)</summary>
        <div class="fields">{others.map(renderField)}</div>
      </details>
      <Problem message={problem} />
      <p class="actions">
        <button type="submit">{submitTitles[kind]}</button>
        {isSubmitted && numProblems > 0 && (
          <span class="field-problem" role="alert">
            {numProblems === 1 ? "One field needs" : `${numProblems} fields need`} another value.
          </span>
        )}
      </p>
      {question !== null && (
        <p class="warning" role="alert">
          {question}{" "}
          <button type="button" class="quiet" onClick={() => void submit(true)}>
            Start all the same
          </button>
        </p>
      )}
      {check?.command && <SameElsewhere command={check.command} code={check.code ?? ""} />}
    </form>
  );
}

/** Lets the server check the values shortly after each change. */
function useCheck(
  kind: JobRow["kind"],
  values: FieldValues,
  onCheck: (check: FormCheck) => void,
  onProblem: (message: string) => void,
): void {
  const content = useDelayed(JSON.stringify(values), 250);
  useEffect(() => {
    let isCurrent = true;
    post<FormCheck>("form/check", { kind, values: JSON.parse(content) as FieldValues }).then(
      (found) => isCurrent && onCheck(found),
      (error: unknown) => isCurrent && onProblem(getMessage(error)),
    );
    return () => {
      isCurrent = false;
    };
  }, [kind, content]);
}

function Presets({ presets, onChoose }: { presets: Form["presets"]; onChoose(values: FieldValues): void }) {
  return (
    <fieldset class="presets">
      <legend>Start from</legend>
      {presets.map(({ title, hint, values }) => (
        <button type="button" class="quiet" key={title} title={hint} onClick={() => onChoose(values)}>
          {title}
        </button>
      ))}
    </fieldset>
  );
}

function SameElsewhere({ command, code }: { command: string; code: string }) {
  return (
    <>
      <h2>The same on the command line and in TypeScript</h2>
      {[command, code].map((text) => (
        <Command key={text} text={text} />
      ))}
    </>
  );
}

const submitTitles = { harden: "Start hardening", train: "Start training", attack: "Start the attack" } as const;
