import type { OnnxGraph, OnnxNode, OnnxTensor } from "./onnx-file.js";

/** 8-bit weights with one scale per row or column of a matrix. Zero is stored as 128. */
interface QuantizedMatrix {
  readonly values: Uint8Array;
  readonly scales: Float32Array;
}

/** An unsigned zero point avoids the products that saturate on processors without VNNI. */
const zeroPoint = 128;

function toFloats({ bytes }: OnnxTensor): Float32Array {
  return new Float32Array(bytes.slice().buffer);
}

/**
 * value ≈ scale · (stored - 128), with scale = largest absolute value / 127 in its row or column.
 */
function quantizeMatrix(matrix: OnnxTensor, by: "row" | "column"): QuantizedMatrix {
  const [rows, columns] = matrix.shape as [number, number];
  const floats = toFloats(matrix);
  const scales = new Float32Array(by === "row" ? rows : columns);
  const getGroup = (i: number): number => (by === "row" ? Math.floor(i / columns) : i % columns);
  for (let i = 0; i < floats.length; i++) {
    const group = getGroup(i);
    scales[group] = Math.max(scales[group]!, Math.abs(floats[i]!) / 127);
  }
  const values = Uint8Array.from(floats, (value, i) => {
    const scale = scales[getGroup(i)]!;
    return zeroPoint + (scale === 0 ? 0 : Math.max(-127, Math.min(127, Math.round(value / scale))));
  });
  return { values, scales };
}

/** Collects the nodes and constants that replace a part of the graph. */
class Replacement {
  readonly nodes: OnnxNode[] = [];
  readonly initializers: Map<string, OnnxTensor>;

  constructor(graph: OnnxGraph) {
    this.initializers = new Map(graph.initializers);
  }

  constant(name: string, type: OnnxTensor["type"], shape: readonly number[], values: ArrayBufferView): string {
    const bytes = new Uint8Array(values.buffer, values.byteOffset, values.byteLength);
    if (!this.initializers.has(name)) this.initializers.set(name, { type, shape, bytes });
    return name;
  }

  add(operator: string, inputs: string[], outputs: string[], attributes: OnnxNode["attributes"] = {}): string {
    this.nodes.push({ operator, inputs, outputs, attributes });
    return outputs[0]!;
  }
}

/**
 * Quantizes a graph to 8 bits. The inputs of products with a weight matrix are quantized at run
 * time, each tensor with one scale, and the weights once, each column with its own scale. Rows of
 * embedding tables have their own scales. Everything else stays float32.
 */
export function quantizeGraph(graph: OnnxGraph): OnnxGraph {
  const replacement = new Replacement(graph);
  const quantized = new Map<string, QuantizedMatrix>();
  const inputs = new Map<string, string>();
  const getMatrix = (name: string | undefined): OnnxTensor | null => {
    const found = name === undefined ? undefined : graph.initializers.get(name);
    return found?.type === "float32" && found.shape.length === 2 ? found : null;
  };
  const getQuantized = (name: string, by: "row" | "column"): QuantizedMatrix => {
    const found = quantized.get(name) ?? quantizeMatrix(graph.initializers.get(name)!, by);
    quantized.set(name, found);
    return found;
  };

  for (const node of graph.nodes) {
    const [first, second] = node.inputs as [string, string];
    const [output] = node.outputs as [string];
    if (node.operator === "MatMul" && getMatrix(second) && !graph.initializers.has(first)) {
      const { shape } = getMatrix(second)!;
      const { values, scales } = getQuantized(second, "column");
      const weight = replacement.constant(`${second}.quantized`, "uint8", shape, values);
      const weightScale = replacement.constant(`${second}.scale`, "float32", [shape[1]!], scales);
      const zero = replacement.constant("zero_point", "uint8", [], Uint8Array.of(zeroPoint));
      const input = inputs.get(first) ?? `${first}.quantized`;
      if (!inputs.has(first))
        replacement.add("DynamicQuantizeLinear", [first], [input, `${first}.scale`, `${first}.zero`]);
      inputs.set(first, input);
      const product = replacement.add("MatMulInteger", [input, weight, `${first}.zero`, zero], [`${output}.integer`]);
      const float = replacement.add("Cast", [product], [`${output}.float`], { to: 1 });
      const scale = replacement.add("Mul", [`${first}.scale`, weightScale], [`${output}.scale`]);
      replacement.add("Mul", [float, scale], [output]);
    } else if (node.operator === "Gather" && node.attributes.axis === 0 && getMatrix(first)) {
      const { shape } = getMatrix(first)!;
      const { values, scales } = getQuantized(first, "row");
      const table = replacement.constant(`${first}.quantized`, "uint8", shape, values);
      const scale = replacement.constant(`${first}.scale`, "float32", [shape[0]!, 1], scales);
      const rows = replacement.add("Gather", [table, second], [`${output}.integer`], { axis: 0 });
      const float = replacement.add("Cast", [rows], [`${output}.float`], { to: 1 });
      const offset = replacement.constant("zero_point.float", "float32", [], Float32Array.of(zeroPoint));
      const centered = replacement.add("Sub", [float, offset], [`${output}.centered`]);
      const rowScale = replacement.add("Gather", [scale, second], [`${output}.scale`], { axis: 0 });
      replacement.add("Mul", [centered, rowScale], [output]);
    } else replacement.nodes.push(node);
  }
  const used = new Set(replacement.nodes.flatMap((node) => node.inputs));
  const initializers = new Map([...replacement.initializers].filter(([name]) => used.has(name)));
  return { ...graph, nodes: replacement.nodes, initializers };
}
