# Locates MLIR 22 and sets:
#   QTRANSPOSE_MLIR_LIB         libMLIR: all dialects and passes, for qtranspose-opt
#   QTRANSPOSE_LLVM_LIB         libLLVM
#   QTRANSPOSE_PYTHON_CAPI_LIB  libMLIRPythonCAPI: what the `mlir` Python package loads
#   QTRANSPOSE_TOOL_RPATH       where qtranspose-opt and the extension look for these at run time,
#   QTRANSPOSE_PYTHON_RPATH     both installed two folders below site-packages
#
# Without MLIR_DIR the `mlir` package of the building interpreter is used (the xtc wheels). Its libraries are found at
# run time by paths relative to site-packages, so nothing of the build machine is recorded. With -DMLIR_DIR= the install
# may be anywhere (LLVM's own layout, or a copy of the wheels'), and its folders are recorded instead.

if(MLIR_DIR)
  set(_user_mlir TRUE)
else()
  set(_user_mlir FALSE)
  execute_process(
    COMMAND ${Python_EXECUTABLE} -c "import importlib.util as u; print(list(u.find_spec('mlir').submodule_search_locations)[0])"
    OUTPUT_VARIABLE _mlir_package OUTPUT_STRIP_TRAILING_WHITESPACE
    RESULT_VARIABLE _status ERROR_QUIET)
  if(NOT _status EQUAL 0)
    message(FATAL_ERROR "No `mlir` package in ${Python_EXECUTABLE}; install requirements/build.txt or pass -DMLIR_DIR=")
  endif()
  # Not cached: the next configuration must ask its own interpreter again.
  set(MLIR_DIR ${_mlir_package}/lib/cmake/mlir)
endif()
# The wheels keep LLVM beside MLIR; an LLVM install keeps both in one prefix, where MLIRConfig finds it.
if(NOT LLVM_DIR AND EXISTS ${MLIR_DIR}/../../../../llvm/lib/cmake/llvm)
  set(LLVM_DIR ${MLIR_DIR}/../../../../llvm/lib/cmake/llvm)
endif()

find_package(MLIR REQUIRED CONFIG)
if(NOT LLVM_VERSION_MAJOR EQUAL 22)
  message(FATAL_ERROR "qtranspose needs MLIR 22; ${MLIR_DIR} is ${LLVM_VERSION_MAJOR}")
endif()
list(APPEND CMAKE_MODULE_PATH ${MLIR_CMAKE_DIR} ${LLVM_CMAKE_DIR})
# LLVM's flags (assertions, ABI macros) are part of its headers' ABI. Its warnings are wanted too, for our code only.
set(LLVM_ENABLE_WARNINGS ON)
include(HandleLLVMOptions)

find_library(QTRANSPOSE_MLIR_LIB MLIR REQUIRED NO_DEFAULT_PATH PATHS ${MLIR_INSTALL_PREFIX}/lib)
find_library(QTRANSPOSE_LLVM_LIB LLVM REQUIRED NO_DEFAULT_PATH PATHS ${LLVM_LIBRARY_DIRS})
# The wheels keep the Python libraries beside lib/; an LLVM install keeps them under python_packages/.
find_library(QTRANSPOSE_PYTHON_CAPI_LIB MLIRPythonCAPI REQUIRED NO_DEFAULT_PATH
  PATHS ${MLIR_INSTALL_PREFIX}/_mlir_libs ${MLIR_INSTALL_PREFIX}/python_packages/mlir_core/mlir/_mlir_libs)

if(_user_mlir)
  foreach(_lib MLIR LLVM PYTHON_CAPI)
    get_filename_component(_dir_${_lib} ${QTRANSPOSE_${_lib}_LIB} DIRECTORY)
  endforeach()
  set(QTRANSPOSE_TOOL_RPATH "${_dir_MLIR};${_dir_LLVM}")
  set(QTRANSPOSE_PYTHON_RPATH "${_dir_PYTHON_CAPI};${_dir_LLVM}")
else()
  if(APPLE)
    set(_site_packages "@loader_path/../..")
  else()
    set(_site_packages "$ORIGIN/../..")
  endif()
  set(QTRANSPOSE_TOOL_RPATH "${_site_packages}/mlir/lib;${_site_packages}/llvm/lib")
  set(QTRANSPOSE_PYTHON_RPATH "${_site_packages}/mlir/_mlir_libs;${_site_packages}/llvm/lib")
endif()
message(STATUS "MLIR ${LLVM_PACKAGE_VERSION} at ${MLIR_INSTALL_PREFIX}")
