import { useState } from "preact/hooks";
import type { ExportRow, RunRow } from "../api.js";
import { Select } from "./widgets.js";

interface ModelPickerProps {
  readonly title: string;
  readonly models: readonly (RunRow | ExportRow)[];
  readonly value: string;
  readonly isOptional?: boolean;
  onChange(reference: string): void;
}

/** Chooses a finished run or an ONNX model, or an endpoint by its address. */
export function ModelPicker({ title, models, value, isOptional = false, onChange }: ModelPickerProps) {
  const [isEndpoint, setEndpoint] = useState(/^https?:/.test(value));
  const [address, setAddress] = useState(/^https?:/.test(value) ? value : "");
  return (
    <div class="input">
      <Select
        title={title}
        value={isEndpoint ? "endpoint" : value}
        options={[
          ...models.map(({ id, name }) => ({ value: id, title: name })),
          { value: "endpoint", title: "endpoint …" },
        ]}
        {...((isOptional || value === "") && { none: isOptional ? "none" : "choose a model" })}
        onChange={(chosen) => {
          setEndpoint(chosen === "endpoint");
          onChange(chosen === "endpoint" ? "" : chosen);
        }}
      />
      {isEndpoint && (
        <form
          class="filters"
          onSubmit={(event) => {
            event.preventDefault();
            onChange(address.trim());
          }}
        >
          <label class="grow">
            <span class="sr-only">Address of the endpoint</span>
            <input
              type="url"
              required
              placeholder="http://127.0.0.1:8080/"
              value={address}
              onInput={(event) => setAddress(event.currentTarget.value)}
            />
          </label>
          <button type="submit" class="quiet">
            Connect
          </button>
        </form>
      )}
    </div>
  );
}
