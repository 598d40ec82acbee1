"""Reads a report as a strict reader of XML does and says what is in it, as JSON: tables by their heading, elements, attributes that would act."""
import json, sys
import xml.etree.ElementTree as tree

text = open(sys.argv[1], encoding="utf-8").read()
assert text.startswith("<!doctype html>\n"), text[:40]
root = tree.fromstring(text.split("\n", 1)[1])
local = lambda element: element.tag.rsplit("}", 1)[-1]
words = lambda element: " ".join("".join(element.itertext()).split())
exact = lambda cell: next((one.get("value") for one in cell if local(one) == "data"), words(cell))
tables, above, pre = [], "", []
for element in root.find("body").iter():
    if local(element) == "h2":
        above = words(element)
    elif local(element) == "pre":
        pre.append("".join(element.itertext()))
    elif local(element) == "table":
        rows = [[exact(cell) for cell in row] for row in element.find("tbody")]
        tables.append({"of": above, "columns": [words(cell) for cell in element.find("thead")[0]], "rows": rows})
acting = ("href", "src", "action", "formaction", "data", "poster", "background", "ping", "xlink:href", "style")
elements = {}
for element in root.iter():
    elements[local(element)] = elements.get(local(element), 0) + 1
    for name in element.keys():
        assert not name.startswith("on") and name not in acting, (local(element), name)
urls = [line for line in text.split("http") if line.startswith(("://", "s://")) and not line.startswith("://www.w3.org/2000/svg")]
json.dump({"tables": tables, "elements": elements, "pre": pre, "urls": len(urls), "texts": words(root.find("body")), "captions": [words(one) for one in root.iter() if local(one) == "figcaption"]}, sys.stdout)
