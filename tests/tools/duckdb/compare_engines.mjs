// SPDX-License-Identifier: Apache-2.0
// Runs the queries of docs/queries by DuckDB and by ClickHouse, and compares their rows:
//   npm install --no-save chdb@3.4.0     # here; 543 MB, so that no test needs it
//   (cd FOLDER_OF_AN_EXPORT && node .../compare_engines.mjs .../docs/queries)
// Prints a line a query; ends with 1 if any rows differ.
import { readFileSync, readdirSync } from "node:fs";
import { DuckDBInstance, version } from "@duckdb/node-api";
import { Session } from "chdb";

const [queries] = process.argv.slice(2);
const textOf = (name) => readFileSync(`${queries}/${name}`, "utf8");

const duckdb = await (await DuckDBInstance.create(":memory:")).connect();
await duckdb.run(textOf("duckdb.sql"));
const clickhouse = new Session();
clickhouse.query(textOf("clickhouse.sql"));

// Numbers of every kind and width are one; rows that a query leaves in no order are sorted.
const comparable = (rows) =>
  rows
    .map((row) => {
      const values = Object.entries(row).map(([name, value]) => {
        const isNumber = typeof value === "bigint" || /^-?\d+(\.\d+)?$/.test(value);
        return [name, isNumber ? Number(value) : value];
      });
      return JSON.stringify(values);
    })
    .sort();

const ofDuckdb = async (statement) =>
  comparable((await duckdb.runAndReadAll(statement)).getRowObjects());
const ofClickhouse = (statement) =>
  comparable(JSON.parse(clickhouse.query(statement.replace(/;\s*$/, ""), "JSON")).data);

console.log(`DuckDB ${version()}, ClickHouse ${clickhouse.query("SELECT version()").trim()}`);
for (const name of readdirSync(queries).filter((file) => /^\d/.test(file)).sort()) {
  const expected = await ofDuckdb(textOf(name));
  const found = ofClickhouse(textOf(name));
  const isSame = JSON.stringify(expected) === JSON.stringify(found);
  if (!isSame) process.exitCode = 1;
  console.log(`${name}: ${found.length} rows, ${isSame ? "the same" : "DIFFERENT"}`);
}
