// Arguments that are lists of numbers or dicts of texts.
//
// Threads: with the GIL.
#ifndef DISTWRAP_PYTHON_SRC_LISTS_H_
#define DISTWRAP_PYTHON_SRC_LISTS_H_

#include "distwrap/c.h"
#include "error.h"

#include <cstdint>
#include <nanobind/nanobind.h>
#include <string>
#include <vector>

namespace distwrap_python {

// Texts of a dict, for as long as the object lives.
struct Pairs {
  std::vector<std::string> texts;
  std::vector<distwrap_pair> pairs;
  Pairs(const char* call, nanobind::handle dict) {
    if (dict.is_none()) return;
    if (PyDict_Check(dict.ptr()) == 0)
      raise_type(call, "hints are of type " + type_of(dict),
                 "give a dict of texts");
    const nanobind::dict given = nanobind::borrow<nanobind::dict>(dict);
    for (auto [key, value] : given) {
      texts.push_back(nanobind::cast<std::string>(nanobind::str(key)));
      texts.push_back(nanobind::cast<std::string>(nanobind::str(value)));
    }
    for (size_t i = 0; i < texts.size(); i += 2)
      pairs.push_back({texts[i].c_str(), texts[i + 1].c_str()});
  }
};

// Rows for each rank. None and an empty list mean none.
struct Rows {
  std::vector<int64_t> rows;
  bool given = false;
  Rows(const char* call, const char* name, nanobind::handle list) {
    if (list.is_none()) return;
    if (PySequence_Check(list.ptr()) == 0)
      raise_type(call, std::string(name) + " is of type " + type_of(list),
                 "give a list of one number of rows for each rank");
    const nanobind::object items =
        nanobind::steal(PySequence_Tuple(list.ptr()));
    if (!items.is_valid()) throw nanobind::python_error();
    for (nanobind::handle item : nanobind::borrow<nanobind::tuple>(items)) {
      const nanobind::object index =
          nanobind::steal(PyNumber_Index(item.ptr()));
      if (!index.is_valid()) {
        PyErr_Clear();
        raise_type(call, std::string(name) + " has a " + type_of(item),
                   "give whole numbers of rows");
      }
      rows.push_back(PyLong_AsLongLong(index.ptr()));
      if (PyErr_Occurred() != nullptr) {
        PyErr_Clear();
        rows.back() = -1;
      }
    }
    given = !rows.empty();
  }
  const int64_t* data() const { return given ? rows.data() : nullptr; }
};

}  // namespace distwrap_python

#endif  // DISTWRAP_PYTHON_SRC_LISTS_H_
