import { formatPercent } from "../../base/format.js";
import { Bar } from "./widgets.js";

interface ProbabilitiesProps {
  readonly labels: readonly string[];
  readonly values: readonly number[];
  readonly gold?: number;
}

export function Probabilities({ labels, values, gold }: ProbabilitiesProps) {
  return (
    <table class="probabilities">
      <caption class="sr-only">Probabilities</caption>
      <tbody>
        {values.map((value, i) => (
          <tr key={i} class={i === gold ? "gold" : ""}>
            <th scope="row">{labels[i] ?? `class ${i}`}</th>
            <td>
              <Bar fraction={value} />
              {formatPercent(value)}
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
