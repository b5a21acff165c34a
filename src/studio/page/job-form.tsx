import { useEffect, useState } from "preact/hooks";
import type { FormCheck, FormField, JobRow } from "../api.js";
import { get, getMessage, post } from "./api.js";
import { CopyButton, Loading, Problem, useDelayed, useLoaded } from "./widgets.js";

type Values = Readonly<Record<string, string | boolean>>;

/** A form made from the schema of a request. The server checks it while it is filled in. */
export function JobForm({ kind, onStarted }: { kind: JobRow["kind"]; onStarted(): void }) {
  const { data: fields, problem: loadProblem } = useLoaded(() => get<FormField[]>("form", { kind }), [kind]);
  const [values, setValues] = useState<Values>({});
  const [check, setCheck] = useState<FormCheck | null>(null);
  const [isSubmitted, setSubmitted] = useState(false);
  const [problem, setProblem] = useState<string | null>(null);
  const content = useDelayed(JSON.stringify(values), 250);
  useEffect(() => {
    let isCurrent = true;
    post<FormCheck>("form/check", { kind, values: JSON.parse(content) as Values }).then(
      (found) => isCurrent && setCheck(found),
      (error: unknown) => isCurrent && setProblem(getMessage(error)),
    );
    return () => {
      isCurrent = false;
    };
  }, [kind, content]);
  if (!fields) return loadProblem === null ? <Loading what="the form" /> : <Problem message={loadProblem} />;
  const submit = async (): Promise<void> => {
    setSubmitted(true);
    setProblem(null);
    try {
      const answer = await post<FormCheck & { id: string | null }>("jobs", { kind, values });
      setCheck(answer);
      if (answer.id !== null) onStarted();
    } catch (error) {
      setProblem(getMessage(error));
    }
  };
  const renderField = (field: FormField) => (
    <Field
      key={field.key}
      field={field}
      value={values[field.key]}
      problem={isSubmitted || field.key in values ? (check?.problems[field.key] ?? null) : null}
      onChange={(value) => setValues({ ...values, [field.key]: value })}
    />
  );
  const others = fields.filter(({ isMain }) => !isMain);
  const hidden = isSubmitted ? others.filter(({ key }) => check && key in check.problems) : [];
  return (
    <form
      class="job-form"
      noValidate
      onSubmit={(event) => {
        event.preventDefault();
        void submit();
      }}
    >
      <div class="fields">{fields.filter(({ isMain }) => isMain).map(renderField)}</div>
      <details open={hidden.length > 0}>
        <summary>All settings ({others.length} more)</summary>
        <div class="fields">{others.map(renderField)}</div>
      </details>
      <Problem message={problem} />
      <p class="actions">
        <button type="submit">{kind === "train" ? "Start training" : "Start the attack"}</button>
      </p>
      {check?.command && (
        <>
          <h2>The same on the command line and in TypeScript</h2>
          {[check.command, check.code ?? ""].map((text) => (
            <div class="command" key={text}>
              <pre>
                <code>{text}</code>
              </pre>
              <CopyButton text={text} />
            </div>
          ))}
        </>
      )}
    </form>
  );
}

interface FieldProps {
  readonly field: FormField;
  readonly value: string | boolean | undefined;
  readonly problem: string | null;
  onChange(value: string | boolean): void;
}

function Field({ field, value, problem, onChange }: FieldProps) {
  const { key, type, choices, description, suggestions, required } = field;
  const id = `field-${key.replace(".", "-")}`;
  const standard = field.default === null ? "" : String(field.default);
  const common = {
    id,
    name: key,
    "aria-describedby": `${id}-help`,
    "aria-invalid": problem !== null,
  };
  const text = typeof value === "string" ? value : "";
  return (
    <div class="field">
      <label for={id}>
        {key}
        {required && <span aria-hidden="true"> *</span>}
      </label>
      {type === "boolean" ? (
        <input
          {...common}
          type="checkbox"
          checked={typeof value === "boolean" ? value : field.default === true}
          onChange={(event) => onChange(event.currentTarget.checked)}
        />
      ) : type === "choice" ? (
        <select {...common} value={text} onChange={(event) => onChange(event.currentTarget.value)}>
          <option value="">{standard === "" ? "default" : `${standard} (default)`}</option>
          {choices.map((choice) => (
            <option key={choice}>{choice}</option>
          ))}
        </select>
      ) : type === "list" ? (
        <textarea {...common} rows={2} value={text} onInput={(event) => onChange(event.currentTarget.value)} />
      ) : (
        <input
          {...common}
          type="text"
          inputMode={type === "number" ? "decimal" : "text"}
          list={suggestions.length > 0 ? `${id}-list` : ""}
          placeholder={standard}
          value={text}
          onInput={(event) => onChange(event.currentTarget.value)}
        />
      )}
      {suggestions.length > 0 && type !== "list" && (
        <datalist id={`${id}-list`}>
          {suggestions.map((each) => (
            <option key={each} value={each} />
          ))}
        </datalist>
      )}
      <small id={`${id}-help`} class={problem === null ? "" : "field-problem"}>
        {problem ?? `${description}${type === "list" ? `; one per line${formatSuggestions(suggestions)}` : ""}`}
      </small>
    </div>
  );
}

function formatSuggestions(suggestions: readonly string[]): string {
  return suggestions.length > 0 ? `: ${suggestions.join(", ")}` : "";
}
