/** The labels of a time series: `{ route: "/predict" }`. */
type Labels = Readonly<Record<string, string>>;

/** Formats labels as Prometheus expects them. */
function formatLabels(labels: Labels): string {
  const escapeValue = (text: string): string =>
    text.replaceAll("\\", "\\\\").replaceAll('"', '\\"').replaceAll("\n", "\\n");
  const pairs = Object.entries(labels).map(([name, value]) => `${name}="${escapeValue(value)}"`);
  return pairs.length === 0 ? "" : `{${pairs.join(",")}}`;
}

interface Metric {
  format(): string[];
}

/** A number that only grows, per combination of labels. */
export class Counter implements Metric {
  readonly #values = new Map<string, number>();

  constructor(
    readonly name: string,
    readonly help: string,
  ) {}

  add(labels: Labels, amount = 1): void {
    const key = formatLabels(labels);
    this.#values.set(key, (this.#values.get(key) ?? 0) + amount);
  }

  format(): string[] {
    return [
      `# HELP ${this.name} ${this.help}`,
      `# TYPE ${this.name} counter`,
      ...[...this.#values].map(([labels, value]) => `${this.name}${labels} ${value}`),
    ];
  }
}

/** How often values were at most each of some bounds. */
export class Histogram implements Metric {
  readonly #counts: number[];
  #sum = 0;

  constructor(
    readonly name: string,
    readonly help: string,
    readonly bounds: readonly number[],
  ) {
    this.#counts = new Array<number>(bounds.length + 1).fill(0);
  }

  observe(value: number): void {
    const index = this.bounds.findIndex((bound) => value <= bound);
    const bucket = index < 0 ? this.bounds.length : index;
    this.#counts[bucket] = this.#counts[bucket]! + 1;
    this.#sum += value;
  }

  format(): string[] {
    let total = 0;
    const buckets = this.#counts.map((count, i) => {
      total += count;
      return `${this.name}_bucket{le="${this.bounds[i] ?? "+Inf"}"} ${total}`;
    });
    return [
      `# HELP ${this.name} ${this.help}`,
      `# TYPE ${this.name} histogram`,
      ...[...buckets, `${this.name}_sum ${this.#sum}`, `${this.name}_count ${total}`],
    ];
  }
}

/** A number that is read when it is asked for. */
export class Gauge implements Metric {
  constructor(
    readonly name: string,
    readonly help: string,
    readonly read: () => number,
  ) {}

  format(): string[] {
    return [`# HELP ${this.name} ${this.help}`, `# TYPE ${this.name} gauge`, `${this.name} ${this.read()}`];
  }
}

/** Formats metrics in the text format of Prometheus. */
export function formatMetrics(metrics: readonly Metric[]): string {
  return `${metrics.flatMap((metric) => metric.format()).join("\n")}\n`;
}
