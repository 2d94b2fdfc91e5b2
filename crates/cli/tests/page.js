// Runs inside the page of `clematis check`, after the page's own script; see page.rs.
"use strict";
const faults = [];
const look = (claim, words) => { if (!claim) faults.push(words); };
const button = name => [...document.querySelectorAll("#table button")].find(b => b.dataset.cell === name);
const rows = () => [...document.querySelectorAll("#table tbody tr th")].map(th => th.textContent);
const choose = (id, value) => { place(id).value = value; place(id).dispatchEvent(new Event(id === "search" ? "input" : "change")); };
try {
  look(document.querySelectorAll(".tile").length === 2, "two tiles");
  look(document.body.textContent.includes("9.8.7"), "the version of a backend");
  look(rows().includes("test_sinh") && rows().includes("test_tanh"), "both tests");
  look(button("test_sinh native").className === "cell passed", "native passes");
  look(button("test_sinh odd").className === "cell failed", "the odd one fails");

  button("test_sinh odd").click();
  look(place("dialog").open, "a dialog");
  look(place("messages").textContent.includes("units of f32"), "the message");
  look(place("detail").textContent.includes("ms") || place("detail").textContent.includes("µs"), "a duration");
  look(location.hash.includes("cell=test_sinh+odd"), "the cell in the address");
  place("close").click();

  choose("search", "TANH");
  look(rows().join() === "test_atanh,test_tanh" || rows().join() === "test_tanh", "search: " + rows());
  choose("search", "nothing like this");
  look(place("table").textContent.includes("No test matches"), "an empty table says so");
  choose("search", "");
  choose("state", "3");
  look(rows().join() === "test_sinh", "state: " + rows());
  choose("state", "");
  choose("dtype", "f32");
  look(button("test_tanh native").getAttribute("aria-label").includes("2 of 2 passed"), "one element type");
  choose("dtype", "bool");
  look(rows().length === 1 && rows()[0].includes("No test"), "no bool: " + rows());
  choose("dtype", "");

  const box = document.querySelector("#backends input[data-backend=odd]");
  box.click();
  look(!button("test_sinh odd") && button("test_sinh native"), "a backend hidden");
  box.click();
  look(button("test_sinh odd"), "and shown");

  button("test_tanh native").focus();
  button("test_tanh native").dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowRight", bubbles: true }));
  look(document.activeElement === button("test_tanh odd"), "arrows move");

  document.querySelector("[data-table=gradients]").click();
  look(button("test_tanh odd") && location.hash.includes("table=gradients"), "another table");
  look(document.querySelector("[data-table=modules]").disabled, "an empty table");
  document.querySelector("[data-table=layers]").click();
  look(rows().join() === "test_conv2d" && document.querySelectorAll("#runs tbody tr").length === 2, "named rows and history");
  look(document.querySelectorAll("#chart path").length === 2, "a trend");
  location.hash = "#search=sinh&cell=test_sinh+odd";
  window.onhashchange();
  look(place("dialog").open, "a cell from the address");
  look(document.documentElement.scrollWidth <= document.documentElement.clientWidth, "no sideways scrolling of the page");
} catch (error) {
  faults.push(String(error));
}
document.title = faults.length ? "FAULTS: " + faults.join("; ") : "ALL FINE";
