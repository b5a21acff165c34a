import protobuf from "protobufjs/minimal.js";

const typeNumbers = { float32: 1, uint8: 2, int8: 3, int32: 6, int64: 7, bool: 9 } as const;

export type OnnxType = keyof typeof typeNumbers;

export function getTypeNumber(type: OnnxType): number {
  return typeNumbers[type];
}

export interface OnnxTensor {
  readonly type: OnnxType;
  readonly shape: readonly number[];
  /** The values in little-endian order, row-major. */
  readonly bytes: Uint8Array;
}

export type OnnxAttribute = number | readonly number[] | { readonly float: number };

export interface OnnxNode {
  readonly operator: string;
  /** Names of values. An empty name is an input that is left out. */
  readonly inputs: readonly string[];
  readonly outputs: readonly string[];
  readonly attributes: Readonly<Record<string, OnnxAttribute>>;
}

export interface OnnxValue {
  readonly name: string;
  readonly type: OnnxType;
  readonly shape: readonly (number | string)[];
}

export interface OnnxGraph {
  readonly inputs: readonly OnnxValue[];
  readonly outputs: readonly OnnxValue[];
  readonly nodes: readonly OnnxNode[];
  readonly initializers: ReadonlyMap<string, OnnxTensor>;
}

/** The version of the operators. 17 is the first one with LayerNormalization. */
const opsetVersion = 17;
const irVersion = 8;

/** A protocol buffer cannot be larger. */
export const maxOnnxBytes = 2 ** 31 - 1;

type Writer = protobuf.Writer;

// The numbers are those of the fields in onnx.proto.

function writeMessage(writer: Writer, field: number, body: (writer: Writer) => void): void {
  writer.uint32((field << 3) | 2).fork();
  body(writer);
  writer.ldelim();
}

function writeText(writer: Writer, field: number, text: string): void {
  writer.uint32((field << 3) | 2).string(text);
}

function writeInteger(writer: Writer, field: number, value: number): void {
  writer.uint32(field << 3).int64(value);
}

function writeAttribute(writer: Writer, name: string, value: OnnxAttribute): void {
  writeText(writer, 1, name);
  if (typeof value === "number") {
    writeInteger(writer, 3, value);
    writeInteger(writer, 20, 2);
  } else if ("float" in value) {
    writer.uint32((2 << 3) | 5).float(value.float);
    writeInteger(writer, 20, 1);
  } else {
    for (const item of value) writeInteger(writer, 8, item);
    writeInteger(writer, 20, 7);
  }
}

function writeNode(writer: Writer, node: OnnxNode, index: number): void {
  for (const name of node.inputs) writeText(writer, 1, name);
  for (const name of node.outputs) writeText(writer, 2, name);
  writeText(writer, 3, `${node.operator}_${index}`);
  writeText(writer, 4, node.operator);
  for (const [name, value] of Object.entries(node.attributes))
    writeMessage(writer, 5, (inner) => writeAttribute(inner, name, value));
}

function writeTensor(writer: Writer, name: string, { type, shape, bytes }: OnnxTensor): void {
  for (const size of shape) writeInteger(writer, 1, size);
  writeInteger(writer, 2, typeNumbers[type]);
  writeText(writer, 8, name);
  writer.uint32((9 << 3) | 2).bytes(bytes);
}

function writeValue(writer: Writer, { name, type, shape }: OnnxValue): void {
  writeText(writer, 1, name);
  writeMessage(writer, 2, (outer) =>
    writeMessage(outer, 1, (tensor) => {
      writeInteger(tensor, 1, typeNumbers[type]);
      writeMessage(tensor, 2, (dimensions) => {
        for (const size of shape)
          writeMessage(dimensions, 1, (dimension) =>
            typeof size === "number" ? writeInteger(dimension, 1, size) : writeText(dimension, 2, size),
          );
      });
    }),
  );
}

export function encodeOnnx(graph: OnnxGraph, producerVersion: string): Uint8Array {
  const writer = protobuf.Writer.create();
  writeInteger(writer, 1, irVersion);
  writeText(writer, 2, "temper");
  writeText(writer, 3, producerVersion);
  writeMessage(writer, 7, (inner) => {
    for (const [index, node] of graph.nodes.entries())
      writeMessage(inner, 1, (message) => writeNode(message, node, index));
    writeText(inner, 2, "model");
    for (const [name, tensor] of graph.initializers)
      writeMessage(inner, 5, (message) => writeTensor(message, name, tensor));
    for (const value of graph.inputs) writeMessage(inner, 11, (message) => writeValue(message, value));
    for (const value of graph.outputs) writeMessage(inner, 12, (message) => writeValue(message, value));
  });
  writeMessage(writer, 8, (inner) => {
    writeText(inner, 1, "");
    writeInteger(inner, 2, opsetVersion);
  });
  return writer.finish();
}
