import type { FormField } from "../api.js";

export type FieldValues = Readonly<Record<string, string | boolean>>;

interface FieldProps {
  readonly field: FormField;
  readonly value: string | boolean | undefined;
  readonly problem: string | null;
  onChange(value: string | boolean): void;
}

/** A field with its label, its picker, and what it means or what is wrong with it. */
export function Field({ field, value, problem, onChange }: FieldProps) {
  const { key, label, description, required, type, options, whenEmpty } = field;
  const id = `field-${key.replace(".", "-")}`;
  const isWide = type === "list" && options.some(({ hint }) => hint !== "");
  // A long default is not cut.
  const isDouble = whenEmpty.length > 35;
  return (
    <div class={`field ${isWide ? "wide" : isDouble ? "double" : ""}`}>
      <label for={id}>
        {label}
        {required && <span aria-hidden="true"> *</span>}
      </label>
      <Input id={id} field={field} value={value} isInvalid={problem !== null} onChange={onChange} />
      <small id={`${id}-help`} class={problem === null ? "" : "field-problem"}>
        {problem ?? `${description}${type === "list" ? "; one per line" : ""}`}
      </small>
    </div>
  );
}

interface InputProps extends Omit<FieldProps, "problem"> {
  readonly id: string;
  readonly isInvalid: boolean;
}

function Input({ id, field, value, isInvalid, onChange }: InputProps) {
  const { key, type, options, required } = field;
  const whenEmpty = required ? "" : field.whenEmpty;
  const common = { id, name: key, "aria-describedby": `${id}-help`, "aria-invalid": isInvalid };
  const text = typeof value === "string" ? value : "";
  if (type === "boolean")
    return (
      <input
        {...common}
        type="checkbox"
        checked={typeof value === "boolean" ? value : field.default === true}
        onChange={(event) => onChange(event.currentTarget.checked)}
      />
    );
  if (type === "list")
    return (
      <>
        <textarea
          {...common}
          rows={2}
          placeholder={whenEmpty}
          value={text}
          onInput={(event) => onChange(event.currentTarget.value)}
        />
        {options.length > 0 && <Picker field={field} text={text} onChange={onChange} />}
      </>
    );
  if (type === "choice")
    return (
      <select {...common} value={text} onChange={(event) => onChange(event.currentTarget.value)}>
        <option value="">{whenEmpty}</option>
        {options.map(({ value }) => (
          <option key={value}>{value}</option>
        ))}
      </select>
    );
  return (
    <>
      <input
        {...common}
        type="text"
        inputMode={type === "number" ? "decimal" : "text"}
        placeholder={whenEmpty}
        list={`${id}-options`}
        value={text}
        onInput={(event) => onChange(event.currentTarget.value)}
      />
      <datalist id={`${id}-options`}>
        {options.map(({ value, hint }) => (
          <option key={value} value={value} label={hint ? `${value}: ${hint}` : value} />
        ))}
      </datalist>
    </>
  );
}

function Picker({ field, text, onChange }: { field: FormField; text: string; onChange(value: string): void }) {
  const lines = text.split("\n").filter((line) => line.trim() !== "");
  const isChosen = (name: string) => (line: string) => line.split(":", 1)[0]!.trim() === name;
  const toggle = (name: string): void => {
    const rest = lines.filter((line) => !isChosen(name)(line));
    onChange((rest.length < lines.length ? rest : [...lines, name]).join("\n"));
  };
  return (
    <details class="picker" open={field.options.every(({ hint }) => hint === "")}>
      <summary>Choose from {field.options.length}</summary>
      <ul>
        {field.options.map(({ value, hint }) => (
          <li key={value}>
            <label>
              <input type="checkbox" checked={lines.some(isChosen(value))} onChange={() => toggle(value)} /> {value}
              <small>{hint}</small>
            </label>
          </li>
        ))}
      </ul>
    </details>
  );
}
